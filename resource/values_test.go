package resource

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appv1 "huolala.cn/app-operator/api/v1"
	rules "huolala.cn/app-operator/api/v1/validation"
)

// secretText is in each text that a test states; no error or warning may repeat it.
const secretText = "hunter2"

// secretTexts are right and wrong for fields of many kinds.
var secretTexts = []string{
	secretText, secretText + "=\x01 ", " " + secretText, "../" + secretText, "/" + secretText + ":x", "-" + secretText + "!", strings.ToUpper(secretText) + secretText + "_",
	"localhost/../" + secretText, secretText + strings.Repeat("x", 5000), "[\"" + secretText + "\"]", `[{"operator":"` + secretText + `","effect":"` + secretText + `"}]`, "0.0.0.0/" + secretText,
}

// shown are the fields of Kubernetes' types and ours whose values errors and warnings may repeat: names, and words of
// a fixed set. What is not listed, such as a value, an argument, a path or a header, may be a secret or have one in it.
var shown = []string{
	// Names of objects and of what is in them, keys, and numbers.
	"Name", "Key", "Port", "TargetPort", "VolumeName", "Namespaces", "Request", "Prefix", "GMSACredentialSpecName", "RunAsUserName", "TopologyKey",
	"VolumeNamespace", "VolumeAttributesClassName", "StorageClassName", "ServiceAccountName", "RuntimeClassName", "PriorityClassName", "Kind",
	"APIGroup", "MatchLabelKeys", "MismatchLabelKeys", "LoadBalancerClass", "Driver", "DatasetName", "AppProtocol", "Image", "Resource", "ResourceName",
	"Registry", "InitiatorName", "IQN", "IP", "Hostnames", "Searches", "Nameservers", "FieldPath", "APIVersion", "Hostname", "Subdomain", "NodeName",
	"HostnameOverride", "LoadBalancerSourceRanges", "ConditionType", "ResourceClaimName", "ResourceClaimTemplateName", "HostIP",
	// Labels, and what selects by labels and taints.
	"Values", "Value of a toleration", "a label",
	// Words of a fixed set.
	"Operator", "Scheme", "Type", "RestartPolicy", "RecursiveReadOnly", "ProcMount", "MountPropagation", "ImagePullPolicy", "TerminationMessagePolicy",
	"Protocol", "Action", "WhenUnsatisfiable", "VolumeMode", "SupplementalGroupsPolicy", "Size", "SELinuxChangePolicy", "PullPolicy",
	"SecurityProfile", "IPFamilies", "NodeTaintsPolicy", "NodeAffinityPolicy", "FSGroupChangePolicy", "Effect", "DNSPolicy", "CachingMode", "AccessModes", "PreemptionPolicy", "Strategy",
}

// fieldAt is what a path of a text leads to, as shown has it.
func fieldAt(path []string) string {
	last, before := path[len(path)-1], strings.Join(path[:len(path)-1], ".")
	switch {
	case last == "[]" && !strings.Contains(before, "Annotations"):
		return "a label"
	case last == "Value" && strings.HasSuffix(before, "Tolerations"):
		return "Value of a toleration"
	}
	return last
}

// stringFields returns the paths of all texts in a type, by Go's names of the fields.
func stringFields(t reflect.Type, path []string, seen []reflect.Type) [][]string {
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		return nil
	case reflect.TypeFor[intstr.IntOrString]():
		return [][]string{path}
	}
	switch t.Kind() {
	case reflect.String:
		return [][]string{path}
	case reflect.Pointer, reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		return stringFields(t.Elem(), path, seen)
	case reflect.Map:
		return stringFields(t.Elem(), append(slices.Clone(path), "[]"), seen)
	case reflect.Struct:
		if slices.Contains(seen, t) {
			return nil
		}
		var all [][]string
		for i := range t.NumField() {
			all = append(all, stringFields(t.Field(i).Type, append(slices.Clone(path), t.Field(i).Name), append(slices.Clone(seen), t))...)
		}
		return all
	}
	return nil
}

// setText sets the text at a path, and what has to be there around it; key is that of an entry of a map. What tells items of a list
// apart is set too.
func setText(v reflect.Value, path []string, key, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setText(v.Elem(), path, key, text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		item := v.Index(0)
		if item.Kind() == reflect.Struct {
			for name, value := range map[string]any{"Name": "app", "MountPath": "/m", "DevicePath": "/d", "ContainerPort": int32(80), "IP": "127.0.0.1", "TopologyKey": "zone", "Port": int32(80), "UID": "1"} {
				if f := item.FieldByName(name); f.IsValid() && f.Type() == reflect.TypeOf(value) {
					f.Set(reflect.ValueOf(value))
				}
			}
		}
		setText(item, path, key, text)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		setText(value, path[1:], key, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[intstr.IntOrString]() {
			v.Set(reflect.ValueOf(intstr.FromString(text)))
			return
		}
		setText(v.FieldByName(path[0]), path[1:], key, text)
	default:
		v.SetString(text)
	}
}

// mapKeys are keys of labels and annotations that mean something, and one that does not.
var mapKeys = []string{
	"key", "app.huolala.cn/paused", "app.huolala.cn/adopt", corev1.PodDeletionCost, "scheduler.alpha.kubernetes.io/tolerations", corev1.MirrorPodAnnotationKey,
	corev1.SeccompPodAnnotationKey, corev1.SeccompContainerAnnotationKeyPrefix + "app", corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "app",
	corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "other", corev1.AnnotationLoadBalancerSourceRangesKey, corev1.AnnotationTopologyMode,
	"deployment.kubernetes.io/revision", "kubernetes.io/config.seen",
}

// said returns all errors and warnings of an App.
func said(app *appv1.App) string {
	var b strings.Builder
	_, errs := App(app, latest)
	for _, err := range append(errs, rules.App(app)...) {
		fmt.Fprintln(&b, err)
	}
	for _, w := range rules.AppWarnings(app, nil) {
		fmt.Fprintln(&b, w)
	}
	return b.String()
}

// TestNoValueIsRepeated states, in each field of a spec and of a patch in turn, a text that may be a secret, in forms that
// are right for some fields and wrong for others: no error and no warning may repeat it unless the field is a name or one of
// some words.
func TestNoValueIsRepeated(t *testing.T) {
	leaks := map[string]string{}
	check := func(path []string, app *appv1.App) {
		if text := said(app); strings.Contains(strings.ToLower(text), secretText) && !slices.Contains(shown, fieldAt(path)) {
			leaks[strings.Join(path, ".")] = text
		}
	}
	keysOf := func(path []string) []string {
		if slices.Contains(path, "[]") {
			return mapKeys
		}
		return mapKeys[:1]
	}
	for _, path := range stringFields(reflect.TypeFor[appv1.WorkloadSpec](), nil, nil) {
		for _, key := range keysOf(path) {
			for _, text := range secretTexts {
				app := appOf(t, "{image: a}")
				setText(reflect.ValueOf(&app.Spec.WorkloadSpec).Elem(), path, key, text)
				check(append([]string{"spec"}, path...), app)
			}
		}
	}
	for _, path := range stringFields(reflect.TypeFor[corev1.PodTemplateSpec](), nil, nil) {
		if slices.Contains(path, "ManagedFields") {
			continue
		}
		for _, key := range keysOf(path) {
			for _, text := range secretTexts {
				app, patch := appOf(t, "{image: a}"), corev1.PodTemplateSpec{}
				setText(reflect.ValueOf(&patch).Elem(), path, key, text)
				data, err := json.Marshal(patch)
				if err != nil {
					t.Fatal(err)
				}
				app.Spec.PodTemplatePatch = &runtime.RawExtension{Raw: data}
				check(append([]string{"patch"}, path...), app)
			}
		}
	}
	for path, text := range leaks {
		t.Errorf("%s is repeated: %.300s", path, text)
	}
}
