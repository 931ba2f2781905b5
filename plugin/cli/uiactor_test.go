package cli

import (
	"errors"
	"net/http"
	"path"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/ui"
	"huolala.cn/app-operator/plugin/view"
)

// TestUnclearActions has writes of the pages fail: only after an answer that refuses it, an action is known not to be done. A failed read or dry run does
// nothing.
func TestUnclearActions(t *testing.T) {
	t.Parallel()
	kind, _ := view.KindOf("App")
	apps := schema.GroupResource{Resource: "apps"}
	write := func(q *http.Request) bool { return q.Method == http.MethodPatch && q.URL.Query().Get("dryRun") == "" }
	dryRun := func(q *http.Request) bool { return q.Method == http.MethodPatch && q.URL.Query().Get("dryRun") != "" }
	read := func(q *http.Request) bool { return q.Method == http.MethodGet && path.Base(q.URL.Path) == "web" }
	for name, c := range map[string]struct {
		at     func(*http.Request) bool
		answer *apierrors.StatusError // nil if the connection ends.
		want   error
	}{
		"no answer":   {write, nil, ui.ErrUnclear},
		"unavailable": {write, unavailable, ui.ErrUnclear},
		"internal":    {write, apierrors.NewInternalError(errors.New("etcd")), ui.ErrUnclear},
		"too slow":    {write, apierrors.NewTimeoutError("slow", 0), ui.ErrUnclear},
		"forbidden":   {write, forbidden, nil},
		"invalid":     {write, apierrors.NewBadRequest("no"), nil},
		"no read":     {read, unavailable, nil},
		"no dry run":  {dryRun, unavailable, nil},
		"a conflict":  {write, apierrors.NewConflict(apps, "web", errors.New("changed")), ui.ErrChanged},
	} {
		for _, do := range []string{ui.Pause, ui.Refresh, ui.Restart} {
			if do != ui.Restart && name == "no dry run" || do == ui.Restart && name == "a conflict" { // A pause has no dry run, and a restart is tried again.
				continue
			}
			d := &appsv1.Deployment{ObjectMeta: objectMeta("web")}
			d.OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: ptr.To(true)}}
			f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}, "deployments/web": d})
			f.answer = func(q *http.Request, _ string) runtime.Object {
				switch {
				case !c.at(q):
					return nil
				case c.answer == nil:
					panic(http.ErrAbortHandler)
				}
				return status(c.answer)
			}
			a := &actor{clients: f.clients(t)}
			err := a.PerformAction(t.Context(), ui.Action{Kind: kind, Namespace: namespaceOfTests, Name: "web", Do: do}, "7")
			if err == nil || errors.Is(err, ui.ErrUnclear) != errors.Is(c.want, ui.ErrUnclear) || c.want != nil && !errors.Is(err, c.want) || errors.Is(err, ui.ErrPartial) {
				t.Errorf("%s, %s: %v, want %v", name, do, err, c.want)
			}
			if c.want == nil && c.answer != nil && !strings.Contains(err.Error(), c.answer.ErrStatus.Message) {
				t.Errorf("%s, %s: %v does not say why", name, do, err)
			}
		}
	}
}
