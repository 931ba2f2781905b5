package fields

import (
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// essentials has, by the type of a struct, the handlers that the struct may have, each with the field that the API server requires in that handler. The
// API server also requires a handler. Server-side apply keeps a struct that a literal leaves out for as long as another manager has a field
// of the struct, and the API server refuses a rest without a required field. An item of a list with keys goes as a whole.
var essentials = map[reflect.Type]map[string]string{
	reflect.TypeFor[corev1.Probe]():            {"exec": "command", "httpGet": "port", "tcpSocket": "port", "grpc": "port"},
	reflect.TypeFor[corev1.LifecycleHandler](): {"exec": "command", "httpGet": "port", "tcpSocket": "port", "sleep": "seconds"},
}

// owners has the fields of a live object that our manager owns, and the fields that others own.
type owners struct{ ours, theirs *fieldpath.Set }

// newOwners returns a function that returns the owners of the fields of a live object. It decodes the managed fields once, when they are needed.
func newOwners(live client.Object, manager string) func() owners {
	return sync.OnceValue(func() owners {
		found := owners{ours: OwnedBy(live, manager), theirs: &fieldpath.Set{}}
		for _, entry := range live.GetManagedFields() {
			if set := DecodeManaged(entry); set != nil && !IsApplyOf(entry, manager) {
				found.theirs = found.theirs.Union(set)
			}
		}
		return found
	})
}

// below returns the owners of the fields below a path.
func (o owners) below(path fieldpath.Path) owners {
	for _, element := range path {
		o = owners{o.ours.WithPrefix(element), o.theirs.WithPrefix(element)}
	}
	return o
}

// shared reports whether our manager and others have fields below. Server-side apply removes a struct of ours that is not shared as a whole.
func (o owners) shared() bool { return !o.ours.Empty() && !o.theirs.Empty() }

// losesEssential reports whether a struct loses the required field of its handler, or a handler in which others have no field, with what our manager alone
// owns of the struct.
func (o owners) losesEssential(t reflect.Type) bool {
	for handler, required := range essentials[t] {
		of := o.below(fieldpath.MakePathOrDie(handler))
		if field := fieldpath.MakePathOrDie(required); of.ours.Has(field) && !of.theirs.Has(field) || !of.ours.Empty() && of.theirs.Empty() {
			return true
		}
	}
	return false
}

// visitLeftOut adds the paths of the structs below a live value that a literal leaves out, and that would be left without an essential field.
func (w *excluder) visitLeftOut(ref smd.TypeRef, live reflect.Value, at fieldpath.Path) {
	atom, ok := w.Resolve(ref)
	if !ok || atom.Map == nil || atom.Map.ElementRelationship == smd.Atomic || isNull(live) {
		return
	}
	live = reflect.Indirect(live)
	if live.Kind() != reflect.Struct || live.IsZero() {
		return
	}
	switch of := w.owners().below(at); {
	case !of.shared():
	case of.losesEssential(live.Type()):
		w.addPath(at)
	default:
		for _, field := range value.TypeReflectEntryOf(live.Type()).OrderedFields() {
			w.visitLeftOut(fieldType(atom.Map, field.JsonName), field.GetFrom(live), append(at, fieldpath.PathElement{FieldName: &field.JsonName}))
		}
	}
}
