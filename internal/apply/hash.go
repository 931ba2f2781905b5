package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/children"
)

// hashObject returns the hash of a literal without the number of replicas and the values of a Secret. owner is who applies it,
// if the literal does not say so itself.
func hashObject(obj client.Object, owner types.UID) (string, error) {
	data, err := json.Marshal(children.HashedPart(obj))
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", obj, err)
	}
	sum := sha256.Sum256(append(data, owner...))
	return hex.EncodeToString(sum[:16]), nil
}

// withAnnotation returns a literal that states one annotation more. All else is shared with the original.
func withAnnotation(obj client.Object, name, text string) (client.Object, error) {
	twin := reflect.New(reflect.TypeOf(obj).Elem())
	twin.Elem().Set(reflect.ValueOf(obj).Elem())
	more, ok := twin.Interface().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no API object", obj)
	}
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = text
	more.SetAnnotations(annotations)
	return more, nil
}
