package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
)

// scales is an API server that has one Deployment and serves nothing but changes of its number of pods.
type scales struct {
	d        appsv1.Deployment
	requests []string
	// down is true while each request fails. most, if it is not 0, is the largest number that a policy allows.
	down bool
	most int32
}

func (s *scales) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	var patch autoscalingv1.Scale
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || r.Method != http.MethodPatch {
		http.Error(w, fmt.Sprint("no patch: ", r.Method, err), http.StatusBadRequest)
		return
	}
	s.requests = append(s.requests, fmt.Sprintf("%s %s %s uid=%s replicas=%d",
		r.URL.Path, r.URL.Query().Get("fieldManager"), r.Header.Get("Content-Type"), patch.UID, patch.Spec.Replicas))
	if s.most > 0 && patch.Spec.Replicas > s.most {
		patch.Spec.Replicas = s.most
	}
	if patch.Spec.Replicas != *s.d.Spec.Replicas { // Without a change, the version stays.
		s.set(patch.Spec.Replicas)
	}
	answer := autoscalingv1.Scale{ObjectMeta: s.d.ObjectMeta, Spec: patch.Spec}
	answer.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&answer)
}

// set changes the number of pods, as a user does.
func (s *scales) set(replicas int32) {
	version, _ := strconv.Atoi(s.d.ResourceVersion)
	s.d.ResourceVersion = strconv.Itoa(version + 1)
	s.d.Generation++
	s.d.Spec.Replicas = ptr.To(replicas)
}

// scaler returns an engine whose API server is a scales with a Deployment of three pods.
func scaler(t *testing.T) (*Engine, *scales, *clocktesting.FakePassiveClock) {
	t.Helper()
	s := &scales{}
	s.d.Namespace, s.d.Name, s.d.UID, s.d.ResourceVersion, s.d.Generation = "default", "web", "uid-web", "9", 1
	s.d.Spec.Replicas = ptr.To[int32](3)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	c, err := client.New(&rest.Config{Host: server.URL, QPS: -1}, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return New(c, c, clk), s, clk
}

// scaleTo asks for a number of pods of a Deployment that is seen like this.
func scaleTo(d *appsv1.Deployment, replicas int32) ScaleRequest {
	o := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "holder"}}
	return ScaleRequest{Owner: o, Manager: "me", Deployment: d.DeepCopy(), Replicas: replicas}
}

// TestScale sends one request that says what is wanted and for what object, and none where it holds.
func TestScale(t *testing.T) {
	e, s, _ := scaler(t)
	req := scaleTo(&s.d, 2)
	change, err := e.Scale(t.Context(), req, Write)
	if err != nil || !reflect.DeepEqual(change.Change, Change{Action: Scaled, Kind: "Deployment", Name: "web"}) {
		t.Errorf("got %v, %v", change, err)
	}
	want := []string{"/apis/apps/v1/namespaces/default/deployments/web/scale me application/merge-patch+json uid=uid-web replicas=2"}
	if diff := cmp.Diff(want, s.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&s.d, change.Live); diff != "" {
		t.Errorf("the Deployment as it is then (-want +got):\n%s", diff)
	}
	for _, seen := range []client.Object{change.Live, &s.d} {
		if change, err := e.Scale(t.Context(), scaleTo(seen.(*appsv1.Deployment), 2), Write); err != nil || change.Action != Unchanged {
			t.Errorf("once it holds: %v, %v", change, err)
		}
	}
	if len(s.requests) != 1 {
		t.Errorf("requests: %q", s.requests)
	}
}

// TestScaleUnseen asks again while the Deployment is still seen as it was before the write, for the same number and for
// the one that it seems to have.
func TestScaleUnseen(t *testing.T) {
	e, s, _ := scaler(t)
	before := s.d.DeepCopy()
	if _, err := e.Scale(t.Context(), scaleTo(before, 2), Write); err != nil {
		t.Fatal(err)
	}
	for _, replicas := range []int32{2, 3, 4} {
		if _, err := e.Scale(t.Context(), scaleTo(before, replicas), Write); !errors.Is(err, reconciler.ErrStale) {
			t.Errorf("%d: got %v", replicas, err)
		}
	}
	if len(s.requests) != 1 {
		t.Errorf("requests: %q", s.requests)
	}

	// A later Deployment of the name has an older version only where the cluster was restored: it is not waited for.
	other := before.DeepCopy()
	other.UID, other.ResourceVersion = "uid-other", "1"
	if change, err := e.Scale(t.Context(), scaleTo(other, 2), Write); err != nil || change.Action != Scaled {
		t.Errorf("another Deployment: %v, %v", change, err)
	}
}

// TestFailedScaleIsNoFight has the requests fail after one change by another writer: each retry has the error of the request, and the first one that
// succeeds restores the number at once.
func TestFailedScaleIsNoFight(t *testing.T) {
	e, s, _ := scaler(t)
	ask := func() error {
		_, err := e.Scale(t.Context(), scaleTo(&s.d, 2), Write)
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	s.set(3)
	s.down = true
	for range 3 * conflictRepairs {
		var stalled *reconciler.StalledError
		if err := ask(); err == nil || errors.As(err, &stalled) {
			t.Fatalf("while the API server is down: %v", err)
		}
	}
	s.down = false
	if err := ask(); err != nil || *s.d.Spec.Replicas != 2 {
		t.Errorf("afterwards: %v, %d pods", err, *s.d.Spec.Replicas)
	}
}

// TestScaleOverridden has a policy change the number that is asked for. The outcome has the number that the Deployment has then, the request is sent again
// after a while, however often the Deployment is looked at before, and another number is asked for at once. None of that is a fight.
func TestScaleOverridden(t *testing.T) {
	for name, c := range map[string]struct {
		most   int32
		action Action
	}{"to the number of before": {3, Unchanged}, "to another number": {5, Scaled}} {
		t.Run(name, func(t *testing.T) {
			e, s, clk := scaler(t)
			s.most = c.most
			ask := func(what string, replicas int32, action Action, retry time.Duration) {
				t.Helper()
				out, err := e.Scale(t.Context(), scaleTo(&s.d, replicas), Write)
				if err != nil || out.Action != action || out.RetryAfter != retry {
					t.Fatalf("%s: %s, again after %s, %v", what, out.Action, out.RetryAfter, err)
				}
				if diff := cmp.Diff(&s.d, out.Live); diff != "" {
					t.Errorf("%s: the Deployment (-want +got):\n%s", what, diff)
				}
			}
			ask("first", 9, c.action, conflictMaxDelay)
			for range 3 * conflictRepairs {
				ask("once more", 9, Unchanged, conflictMaxDelay)
			}
			if len(s.requests) != 1 {
				t.Errorf("requests: %q", s.requests)
			}
			clk.SetTime(clk.Now().Add(time.Minute))
			ask("later", 9, Unchanged, conflictMaxDelay-time.Minute)
			ask("another number", 8, Unchanged, conflictMaxDelay)
			for range 3 * conflictRepairs {
				clk.SetTime(clk.Now().Add(conflictMaxDelay))
				ask("after the pause", 8, Unchanged, conflictMaxDelay)
			}
			s.most = 0
			clk.SetTime(clk.Now().Add(conflictMaxDelay))
			ask("the policy is gone", 8, Scaled, 0)
		})
	}
}

// TestScaleFight tells what another writer changes from what is asked for again.
func TestScaleFight(t *testing.T) {
	e, s, clk := scaler(t)
	ask := func(replicas int32) error {
		_, err := e.Scale(t.Context(), scaleTo(&s.d, replicas), Write)
		return err
	}
	for n := range int32(20) {
		if err := ask(10 + n); err != nil {
			t.Fatalf("what is asked for again: %v", err)
		}
	}
	for range conflictRepairs {
		s.set(1)
		if err := ask(29); err != nil {
			t.Fatalf("a repair: %v", err)
		}
	}
	s.set(1)
	var stalled *reconciler.StalledError
	if err := ask(29); !errors.As(err, &stalled) || stalled.Reason != appv1.ReasonFieldConflict || stalled.RetryAfter != conflictFirstDelay {
		t.Errorf("got %v", err)
	}
	if err := ask(30); err != nil {
		t.Errorf("what is asked for in the middle of a fight: %v", err)
	}
	s.set(1)
	if err := ask(30); !errors.As(err, &stalled) {
		t.Errorf("the same fight over another number: %v", err)
	}
	clk.SetTime(clk.Now().Add(conflictFirstDelay))
	if err := ask(30); err != nil {
		t.Errorf("after the pause: %v", err)
	}

	// An owner that is gone is forgotten, with its fights.
	s.set(1)
	if err := ask(30); !errors.As(err, &stalled) {
		t.Fatal(err)
	}
	e.Forget(types.NamespacedName{Namespace: "default", Name: "holder"}, "me")
	if err := ask(30); err != nil {
		t.Errorf("a new owner: %v", err)
	}
}

// TestScaleOfRenamedDeployments has an owner name another Deployment a thousand times, with an outside change of each: the fight over the last one alone stays.
func TestScaleOfRenamedDeployments(t *testing.T) {
	e, s, _ := scaler(t)
	for i := range 1000 {
		s.d.Name, s.d.UID = fmt.Sprint("web-", i), types.UID(fmt.Sprint("uid-", i))
		for range 2 {
			s.set(1)
			if _, err := e.Scale(t.Context(), scaleTo(&s.d, 2), Write); err != nil {
				t.Fatal(err)
			}
		}
		if fights := e.conflicts.owners[ownerKey{"me", types.NamespacedName{Namespace: "default", Name: "holder"}}]; len(fights) != 1 {
			t.Fatalf("%d fights are remembered after %d names", len(fights), i+1)
		}
	}
}
