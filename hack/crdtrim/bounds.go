package main

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appv1 "huolala.cn/app-operator/api/v1"
)

const (
	// quantityLength is the most characters of a quantity.
	quantityLength = 64
	// stringLength is the most characters of an int-or-string that is a string: a name or a percentage.
	stringLength = 63
	// keyLength is the most characters of a key with a default, such as a protocol. Rules that compare it cost by its length.
	keyLength = 15
	// timePattern matches the times that Go reads: each day that there is, leap years included, and no 24:00 or leap second.
	timePattern = "^(" + year + "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|" + leapYear + "-02-29)" +
		"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$"
	year     = "[0-9]{4}"
	leapYear = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
	// listItem and atomicItem name an item in a path: listItem in a list whose items are merged, atomicItem in an atomic list.
	listItem   = "[]"
	atomicItem = "[*]"
	// anyList is the most items of a list of objects that itemLimits does not name.
	anyList = 2000
)

// itemLimits are the most items of a list, by the type of an item. They are far above what pods have, and keep what takes
// the square of their number, such as a strategic merge, from taking long.
var itemLimits = map[reflect.Type]int64{
	reflect.TypeFor[corev1.Container]():                64,
	reflect.TypeFor[corev1.ContainerPort]():            64,
	reflect.TypeFor[corev1.EnvVar]():                   2000,
	reflect.TypeFor[corev1.EnvFromSource]():            500,
	reflect.TypeFor[corev1.VolumeMount]():              500,
	reflect.TypeFor[corev1.VolumeDevice]():             100,
	reflect.TypeFor[corev1.Volume]():                   500,
	reflect.TypeFor[corev1.VolumeProjection]():         500,
	reflect.TypeFor[corev1.LocalObjectReference]():     100,
	reflect.TypeFor[corev1.HostAlias]():                500,
	reflect.TypeFor[corev1.Toleration]():               500,
	reflect.TypeFor[corev1.TopologySpreadConstraint](): 100,
}

// removedSources are the volume sources whose drivers are no longer part of Kubernetes, or disabled there. podTemplatePatch
// still takes them.
var removedSources = []string{
	"awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "flocker", "gcePersistentDisk", "gitRepo",
	"glusterfs", "photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
}

// bound makes the schema refuse what the Go type cannot decode. It reports whether the type reads its JSON itself, so that
// nothing below the node is of interest.
func bound(node map[string]any, t reflect.Type, path string) (bool, error) {
	switch t {
	case reflect.TypeFor[intstr.IntOrString]():
		// The type is stated by x-kubernetes-int-or-string already. A marker states integer where another one has the bounds of the number:
		// controller-gen has no such bounds without a type.
		delete(node, "anyOf")
		delete(node, "type")
		within(node, "minimum", "maximum", math.MinInt32, math.MaxInt32)
		atMost(node, "maxLength", stringLength)
		return true, nil
	case reflect.TypeFor[resource.Quantity]():
		delete(node, "anyOf")
		node["pattern"] = appv1.QuantityPattern
		atMost(node, "maxLength", quantityLength)
		return true, nil
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		// An API server takes any list for a string that has a format.
		delete(node, "format")
		node["pattern"] = timePattern
		return true, nil
	case reflect.TypeFor[runtime.RawExtension]():
		if node["x-kubernetes-preserve-unknown-fields"] != true {
			return true, fmt.Errorf("%s takes any object, but the schema does not", path)
		}
		if name := path[strings.LastIndex(path, ".")+1:]; name == "podTemplatePatch" {
			node["properties"] = templateProperties()
		}
		return true, nil
	case reflect.TypeFor[metav1.ObjectMeta]():
		return false, nil
	}
	if t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return true, fmt.Errorf("%s: crdtrim does not know what JSON the type %s reads", path, t)
	}
	return false, boundNumber(node, t, path)
}

// boundNumber holds a number to what its Go type takes.
func boundNumber(node map[string]any, t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.Int32:
		within(node, "minimum", "maximum", math.MinInt32, math.MaxInt32)
		// Not all API servers enforce the format; the bounds have the same effect.
		delete(node, "format")
	case reflect.Int64:
		// JSON's integers are int64 for the API server too; a greater number is no integer for it.
		delete(node, "format")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return fmt.Errorf("%s is %s; a field of an API is an int32 or an int64", path, t)
	case reflect.String:
		if node["format"] != nil {
			return fmt.Errorf("%s has the format %s, for which an API server takes a list, too; state a pattern", path, node["format"])
		}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return fmt.Errorf("%s is bytes; crdtrim has no pattern for base64", path)
		}
	}
	return nil
}

// within states both bounds of a number where the schema has none that are narrower.
func within(node map[string]any, low, high string, least, most int64) {
	if n, stated := number(node[low]); !stated || n < least {
		node[low] = json.Number(fmt.Sprint(least))
	}
	atMost(node, high, most)
}

// atMost states an upper bound where the schema has none that is narrower.
func atMost(node map[string]any, key string, most int64) {
	if n, stated := number(node[key]); !stated || n > most {
		node[key] = json.Number(fmt.Sprint(most))
	}
}

// number returns a number of a parsed definition.
func number(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

// boundList limits the items of a list that users write, unless they are plain strings or numbers, which the size of an object
// limits.
func boundList(node map[string]any, elem reflect.Type, path string) {
	if strings.Contains(path, ".status.") {
		return
	}
	most, named := itemLimits[value(elem)]
	if !named && value(elem).Kind() != reflect.Struct {
		return
	}
	if !named {
		most = anyList
	}
	atMost(node, "maxItems", most)
}

// withoutListDefaults removes the defaults of a field in a list: a user who applies the same file again would be told of a change,
// as the file does not state them. Kubernetes fills in the same values in the objects that the operator makes.
func withoutListDefaults(property map[string]any, path string) {
	if strings.Contains(path, listItem) || strings.Contains(path, atomicItem) {
		delete(property, "default")
	}
}

// withoutAtomicMap removes the mark of an atomic map below an atomic list: the list is replaced as a whole anyway.
func withoutAtomicMap(node map[string]any, path string) {
	if strings.Contains(path, atomicItem) && node["x-kubernetes-map-type"] == "atomic" {
		delete(node, "x-kubernetes-map-type")
	}
}

// settleKeys removes the dependency of a list's keys on a default: a key has to be required or to have a default. A key whose default is
// empty becomes required. Otherwise the list becomes atomic, and a rule replaces the uniqueness of the keys.
func settleKeys(node map[string]any, path string) error {
	items := object(node["items"])
	properties := object(items["properties"])
	required, _ := items["required"].([]any)
	keys, _ := node["x-kubernetes-list-map-keys"].([]any)
	defaults := map[string]string{}
	for _, k := range keys {
		key := str(k)
		property := object(properties[key])
		switch d, stated := property["default"].(string); {
		case slices.Contains(required, k):
		case !stated:
			return fmt.Errorf("%s: the key %s is neither required nor a string with a default", path, key)
		case d == "":
			required = append(required, k)
			items["required"] = required
		default:
			defaults[key] = d
			if _, listed := property["enum"]; !listed {
				atMost(property, "maxLength", keyLength)
			}
		}
	}
	if len(defaults) == 0 {
		return nil
	}
	delete(node, "x-kubernetes-list-map-keys")
	delete(node, "x-kubernetes-list-type")
	rules, _ := node["x-kubernetes-validations"].([]any)
	node["x-kubernetes-validations"] = append(rules, uniqueness(keys, defaults))
	return nil
}

// uniqueness is the rule that no two items of a list have the same keys.
func uniqueness(keys []any, defaults map[string]string) map[string]any {
	var same, names []string
	for _, k := range keys {
		key := str(k)
		names = append(names, key)
		of := func(item string) string {
			if d, ok := defaults[key]; ok {
				return fmt.Sprintf("(has(%[1]s.%[2]s) ? %[1]s.%[2]s : '%[3]s')", item, key, d)
			}
			return item + "." + key
		}
		same = append(same, of("q")+" == "+of("p"))
	}
	return map[string]any{
		"rule":    fmt.Sprintf("self.all(p, self.exists_one(q, %s))", strings.Join(same, " && ")),
		"message": fmt.Sprintf("each pair of %s may occur once; remove the item that repeats it", strings.Join(names, " and ")),
	}
}

// withoutRemovedSources removes the volume sources that Kubernetes no longer has.
func withoutRemovedSources(properties map[string]any, t reflect.Type) {
	if t != reflect.TypeFor[corev1.Volume]() {
		return
	}
	for _, name := range removedSources {
		delete(properties, name)
	}
}
