package apply

import (
	"testing"
)

// runChanges runs a request in a mode, and returns what it changed, or would change.
func runChanges(t *testing.T, e *Engine, req *Request, mode Mode) (ChangeSet, error) {
	t.Helper()
	done, err := e.Run(t.Context(), *req, mode)
	return done.Changes(), err
}

// writeChanges runs a request, and returns what it changed.
func writeChanges(t *testing.T, e *Engine, req *Request) (ChangeSet, error) {
	t.Helper()
	return runChanges(t, e, req, Write)
}

// localChanges returns what a request would change, without any request to the API server.
func localChanges(t *testing.T, e *Engine, req *Request) (ChangeSet, error) {
	t.Helper()
	return runChanges(t, e, req, Local)
}

// pacedPlan is a plan and when it is carried out.
type pacedPlan struct {
	objectPlan
	pace
}

// planPaced plans an object, and paces its repairs as a run that writes does.
func planPaced(t *testing.T, e *Engine, req *Request, object *Object) pacedPlan {
	t.Helper()
	p, err := e.planLocally(req, object)
	if err != nil {
		t.Fatal(err)
	}
	made := pacedPlan{p, (&run{Engine: e, req: req}).paceRepairs(&p)}
	if made.skip {
		made.action = Unchanged
	}
	return made
}
