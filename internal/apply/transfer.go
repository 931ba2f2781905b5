package apply

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/fields"
)

// statedFields returns the fields that the plan's object states, as a manager owns them after an apply.
func (e *Engine) statedFields(p *objectPlan) (*fieldpath.Set, error) {
	if err := p.ensureFields(); err != nil {
		return nil, err
	}
	return e.comparer.Stated(p.fields)
}

// keptFields returns what other managers own in an adopted object's spec, and what stays there, but for defaults.
func (e *Engine) keptFields(p *objectPlan, after client.Object, t *transfer) ([]string, error) {
	whole, err := e.comparer.TypedLive(p.gvk, after)
	if err != nil {
		return nil, err
	}
	all, err := whole.ToFieldSet()
	if err != nil {
		return nil, err
	}
	stated, err := e.statedFields(p)
	if err != nil {
		return nil, err
	}
	found, _ := whole.AsValue().Unstructured().(map[string]any)
	theirs := fields.SelectBelow(t.theirs.Intersection(all).Difference(stated), []fieldpath.Path{fieldpath.MakePathOrDie("spec")})
	leaves, kept := theirs.Leaves(), &fieldpath.Set{}
	for path := range theirs.All() {
		// An item of a list counts as a whole; of a struct, the fields do.
		if item := path[len(path)-1].FieldName == nil; item || leaves.Has(path) && !fields.IsDefault(found, path) {
			kept.Insert(path.Copy())
		}
	}
	return describe.ShortPaths(kept, describe.MainContainer(after)), nil
}
