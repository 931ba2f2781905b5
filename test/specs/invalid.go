package specs

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Mutate changes one to three places of a spec of the type: a field is removed, or becomes a value at the edge of what is
// allowed or beyond it, or one that is right by itself. What comes of it may be right or wrong. main are names of the main
// container, for patches to refer to.
func Mutate(src Source, typ reflect.Type, spec map[string]any, main ...string) {
	g := &generator{Source: src, accepted: true, volumesMade: true, main: main}
	for range 1 + g.IntN(3) {
		g.mutate(typ, spec)
	}
}

// spot is a place in a tree: a field, an item of a list or the value of a key.
type spot struct {
	typ reflect.Type
	// name is "<Go type>.<JSON name>" of a field, empty for others.
	name string
	set  func(any)
	// remove takes the value away, nil where there is none.
	remove func()
}

// mutate changes one place.
func (g *generator) mutate(typ reflect.Type, tree map[string]any) {
	var spots []spot
	g.spots(&spots, typ, tree, nil)
	if len(spots) == 0 {
		return // There are types without fields.
	}
	s := pick(g, spots...)
	if s.remove != nil && g.IntN(5) == 0 {
		s.remove()
		return
	}
	s.set(g.junk(s.typ, s.name))
}

// spots collects the places below a value, those of the fields that are not there included.
func (g *generator) spots(all *[]spot, typ reflect.Type, value any, set func(any)) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch v := value.(type) {
	case map[string]any:
		if typ.Kind() == reflect.Map {
			for _, key := range sortedKeys(v) {
				*all = append(*all, spot{typ: typ.Elem(), set: func(value any) { v[key] = value }, remove: func() { delete(v, key) }})
			}
			key := g.junkText()
			*all = append(*all, spot{typ: typ.Elem(), set: func(value any) { v[key] = value }})
		}
		if typ.Kind() == reflect.Struct && !opaque(typ) {
			g.fieldSpots(all, typ, v)
		}
	case []any:
		if typ.Kind() != reflect.Slice || set == nil {
			return
		}
		for i := range v {
			replace := func(value any) { v[i] = value }
			*all = append(*all, spot{typ: typ.Elem(), set: replace, remove: func() { set(slices.Delete(slices.Clone(v), i, i+1)) }})
			g.spots(all, typ.Elem(), v[i], replace)
		}
		*all = append(*all, spot{typ: typ.Elem(), set: func(item any) { set(append(slices.Clone(v), item)) }})
		if len(v) > 0 {
			again := copied(v[0])
			*all = append(*all, spot{typ: typ.Elem(), set: func(any) { set(append(slices.Clone(v), again)) }})
		}
	}
}

// fieldSpots collects the places of a struct's fields, and those below them.
func (g *generator) fieldSpots(all *[]spot, typ reflect.Type, v map[string]any) {
	for _, f := range reflect.VisibleFields(typ) {
		name := jsonName(f)
		// The field is known by the type that declares it, which may be inlined.
		declaring := typ
		for _, i := range f.Index[:len(f.Index)-1] {
			declaring = declaring.Field(i).Type
		}
		key := declaring.Name() + "." + name
		if name == "" || slices.Contains(newer, key) || slices.Contains(gated, key) || typ == reflect.TypeFor[metav1.ObjectMeta]() && !slices.Contains([]string{"labels", "annotations", "name"}, name) {
			continue
		}
		s := spot{typ: f.Type, name: key, set: func(value any) { v[name] = value }}
		value, there := v[name]
		if there {
			s.remove = func() { delete(v, name) }
			g.spots(all, f.Type, value, s.set)
		}
		*all = append(*all, s)
	}
}

// opaque reports whether a struct is one value in JSON.
func opaque(typ reflect.Type) bool {
	return slices.Contains([]reflect.Type{
		reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[runtime.RawExtension](),
	}, typ)
}

// texts that are at the edge of some rule, or beyond it.
var texts = []string{
	"", " ", "a", "A", "a.b", "a-b", "-a", "a-", "a_b", "a/b", "a/b/c", "/a", "/a:b", "..", "../a", "a/../b", "..a", "a..b", "a b", " a ", "a=b", "é界", "0", "1", "-1", "65536",
	"\x01", "a\nb", "\u2028", "$(A)", "$patch", "1.2.3.4", "::1", "010.1.1.1", "1.2.3.4:80", "10.0.0.0/8", "10.1.0.0/16", "example.com/a", "kubernetes.io/a", "requests.example.com/a", "a.kubernetes.io/b",
	"true", "Always", "None", "Localhost", "TCP", "HTTP", "http", "1-1", "80", "x--y", "fifteen-chars-x", "sixteen-chars-xx", "30%", "101%", "metadata.name", "metadata.labels", "metadata.labels['a']",
	"metadata.annotations['A/b']", "metadata.labels['']", "spec.host", "status.phase", "limits.cpu", "limits.hugepages-2Mi", "limits.storage", "cpu", "memory", "hugepages-2Mi", "hugepages-x",
	"ephemeral-storage", "storage", "iqn.2001-04.com.example:a", "iqn.x", "eui.0123456789abcdef", "naa.x", "/subscriptions/a", "https://a", "kernel.sem", "net.core.somaxconn", "net/ipv4.x",
	"/a b", "/é?a", "/%2z", "/%2F", "/a//b", "/a/..", `a\b`, `a\b\c`, `.\b`, "CAP_SYS_ADMIN", "empty", "block", "main", "side-0", "v0", "runtime/default", "localhost/a", "app.kubernetes.io/name", "app.huolala.cn/a",
	"container.apparmor.security.beta.kubernetes.io/side-0", "controller.kubernetes.io/pod-deletion-cost", "seccomp.security.alpha.kubernetes.io/pod", "kubernetes.io/config.mirror",
	"scheduler.alpha.kubernetes.io/tolerations", "[{}]", "service.kubernetes.io/topology-mode", "service.beta.kubernetes.io/load-balancer-source-ranges", "deployment.kubernetes.io/revision",
	strings.Repeat("x", 15), strings.Repeat("x", 52), strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 253), strings.Repeat("x", 254),
	strings.Repeat("a.", 126) + "a", strings.Repeat("x", 1025), strings.Repeat("x", 4096),
}

// numbers likewise.
var numbers = []int64{-1 << 31, -1, 0, 1, 2, 3, 10, 30, 31, 79, 80, 99, 100, 101, 255, 256, 420, 511, 512, 599, 600, 601, 3600, 32768, 65535, 65536, 1<<31 - 1}

func (g *generator) junkText() string { return pick(g, texts...) }

// junk returns any value of a type.
func (g *generator) junk(typ reflect.Type, name string) any {
	if choices := values[name]; choices != nil && g.IntN(2) == 0 {
		return copied(pick(g, choices...))
	}
	switch typ {
	case reflect.TypeFor[resource.Quantity]():
		return pick[any](g, "-1", "-1n", "0", int64(0), "1n", "1m", "0.5", "1", int64(1), "1.0001", "2", "2Mi", "3Mi", "1Gi", "1E", "1e30", "9223372036854775807", "1Ki", "1k", "1e3")
	case reflect.TypeFor[intstr.IntOrString]():
		if g.IntN(2) == 0 {
			return pick(g, numbers...)
		}
		return g.junkText()
	case reflect.TypeFor[runtime.RawExtension]():
		return g.junkPatch()
	case reflect.TypeFor[corev1.ResourceList]():
		return map[string]any{
			pick(g, "cpu", "memory", "hugepages-2Mi", "hugepages-0", "example.com/gpu", "kubernetes.io/a", "storage", "requests.cpu", "pods", g.junkText()): g.junk(reflect.TypeFor[resource.Quantity](), ""),
		}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return g.junk(typ.Elem(), name)
	case reflect.Bool:
		return g.IntN(2) == 1
	case reflect.Int32:
		return pick(g, numbers...)
	case reflect.Int64:
		return pick(g, append(slices.Clone(numbers), -1<<63, 1<<32, 1<<32+1, 1<<62)...)
	case reflect.String:
		return g.junkText()
	case reflect.Map:
		return pick(g, map[string]any{}, map[string]any{g.junkText(): g.junkText()}, map[string]any{g.junkText(): "a", "b": g.junkText()})
	case reflect.Slice:
		list := make([]any, pick(g, 0, 1, 1, 1, 2, 2, 3, 4, 21, 33))
		for i := range list {
			list[i] = g.oneJunk(typ.Elem())
		}
		return list
	case reflect.Struct:
		return g.oneJunk(typ)
	default:
		return g.junkText() // Such as bytes, which are text in JSON.
	}
}

// oneJunk returns a value of a type: of a struct one that is empty, right, or right but for one place.
func (g *generator) oneJunk(typ reflect.Type) any {
	if typ.Kind() != reflect.Struct || opaque(typ) {
		return g.junk(typ, "")
	}
	if g.IntN(8) == 0 {
		return map[string]any{}
	}
	made, isMap := g.typed(typ).(map[string]any)
	if isMap && g.IntN(3) > 0 {
		g.mutate(typ, made)
	}
	return made
}

// junkPatch returns a patch of the pod template: some fields of a pod, some of a container, or something else.
func (g *generator) junkPatch() any {
	patch, spec := map[string]any{}, map[string]any{}
	if g.IntN(8) == 0 {
		return pick[any](g, map[string]any{"spec": nil}, map[string]any{"spec": "a"}, map[string]any{"a": "b"}, map[string]any{"spec": map[string]any{"$patch": "replace"}},
			map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": pick(g, g.main...), "$patch": "delete"}}}},
			map[string]any{"spec": map[string]any{"volumes": []any{map[string]any{"name": "empty", "$patch": "delete"}}}},
			map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"$patch": "replace"}}}}, map[string]any{"$setElementOrder/a": int64(1)})
	}
	patch["spec"] = spec
	if g.IntN(4) == 0 {
		patch["metadata"] = map[string]any{"labels": g.junk(reflect.TypeFor[map[string]string](), ""), "annotations": g.junk(reflect.TypeFor[map[string]string](), "")}
	}
	if g.IntN(3) == 0 {
		c := map[string]any{"name": pick(g, append(slices.Clone(g.main), "side-0", "init-0", "new", "")...)}
		g.fewFields(reflect.TypeFor[corev1.Container](), c, "name")
		spec[pick(g, "containers", "containers", "initContainers")] = []any{c}
		return patch
	}
	g.fewFields(reflect.TypeFor[corev1.PodSpec](), spec, "containers", "initContainers")
	return patch
}

// fewFields sets one to three fields of a struct, but for those to leave.
func (g *generator) fewFields(typ reflect.Type, made map[string]any, leave ...string) {
	all := slices.DeleteFunc(reflect.VisibleFields(typ), func(f reflect.StructField) bool {
		key := typ.Name() + "." + jsonName(f)
		return slices.Contains(leave, jsonName(f)) || slices.Contains(newer, key) || slices.Contains(gated, key)
	})
	for range 1 + g.IntN(3) {
		f := pick(g, all...)
		if g.IntN(2) == 0 {
			made[jsonName(f)] = g.typed(f.Type)
		} else {
			made[jsonName(f)] = g.junk(f.Type, typ.Name()+"."+jsonName(f))
		}
	}
}

// copied returns a copy of a tree.
func copied(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return runtime.DeepCopyJSON(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = copied(v[i])
		}
		return list
	}
	return value
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
