package waves

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestGrants gives, tries, declines and forgets grants: each change requeues the resource or the AppDefaults, and nothing is left.
func TestGrants(t *testing.T) {
	newQueue := func() Queue {
		return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	}
	apps, leader := newQueue(), newQueue()
	defer apps.ShutDown()
	defer leader.ShutDown()
	g := NewGrants()
	g.Register("App", apps)
	g.RegisterLeader(leader)
	web, box := idOf("web"), ID{Kind: "ModelBox", NamespacedName: idOf("web").NamespacedName}
	of := types.NamespacedName{Namespace: "platform", Name: "default"}
	g.Give(Grant{Of: of, Wave: 3, Repairs: true, At: began.Add(time.Millisecond)}, []ID{web, box})
	if request, _ := apps.Get(); request.NamespacedName != web.NamespacedName || apps.Len() != 0 {
		t.Errorf("the App that was woken is %v", request)
	}
	grant, ok := g.Of(web)
	if !ok || grant.Of != of || grant.Wave != 3 || !grant.Repairs || grant.Tried || len(g.All()) != 2 {
		t.Errorf("the grant is %+v", grant)
	}
	for at, used := range map[time.Time]bool{began: true, began.Add(time.Hour): true, began.Add(-time.Second): false} {
		if grant.IsUsed(3, at) != used || grant.IsUsed(2, at) {
			t.Errorf("a record of %s is that of the grant: %t, want %t", at, !used, used)
		}
	}
	g.Try(web)
	if grant, _ := g.Of(box); grant.Tried {
		t.Error("two resources share a grant")
	}
	g.Note(web, true)
	if grant, _ := g.Of(web); !grant.Tried || !grant.Refused {
		t.Errorf("the grant that was tried is %+v", grant)
	}
	g.Decline(web, "state", 0)
	if request, _ := leader.Get(); request.NamespacedName != of || g.Declined(web) != "state" {
		t.Errorf("the AppDefaults that were woken are %v, the state is %q", request, g.Declined(web))
	}
	if request, _ := leader.Get(); request.NamespacedName != (types.NamespacedName{Namespace: web.Namespace, Name: "default"}) {
		t.Errorf("the AppDefaults of the namespace that were woken are %v", request)
	}
	g.Decline(web, "another", 0) // There is no grant any more.
	g.Forget(box)
	g.Try(box)
	g.Note(box, true)
	if _, ok := g.Of(web); ok || len(g.All()) != 0 || g.Declined(web) != "state" || leader.Len() != 0 {
		t.Errorf("the grants are %v, the state is %q", g.All(), g.Declined(web))
	}
	g.Forget(web)
	if g.Declined(web) != "" {
		t.Error("what has declined is remembered for ever")
	}
}
