package apply

import (
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// statedFields returns the fields that the plan's object states, as a manager owns them after an apply.
func (e *Engine) statedFields(p *plan) (*fieldpath.Set, error) {
	if err := p.ensureFields(); err != nil {
		return nil, err
	}
	return e.comparer.Stated(p.fields)
}
