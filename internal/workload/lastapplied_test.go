package workload

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// TestIsChanged compares a spec with the record on the live object, and with what is remembered of one that is gone.
func TestIsChanged(t *testing.T) {
	record, other := `{"replicas":2,"image":"nginx:1","ports":[{"port":80}]}`, `{"image":"other"}`
	live := func(uid types.UID, record string) client.Object {
		d := &appsv1.Deployment{ObjectMeta: controlledBy("web", "App", "web", uid)}
		d.Annotations = map[string]string{appv1.AnnotationLastAppliedSpec: record}
		return d
	}
	small, large := `{"name":"db","image":"a","storage":{"size":"1Gi"}}`, `{"name":"db","image":"a","storage":{"size":"2Gi"}}`
	asDatabase := func(d *Input) {
		cm := &appv1.CloudManager{}
		if err := resource.DecodeSpec(small, &cm.Spec.DB.StatefulSet); err != nil {
			t.Fatal(err)
		}
		d.Spec = resource.TierSpec(cm, resource.TierDatabase)
	}
	for name, c := range map[string]struct {
		live       client.Object
		remembered string
		change     func(*Input)
		changed    bool
		want       bool
	}{
		"nothing is known":                      {},
		"gone, the same spec":                   {remembered: record},
		"gone, another spec":                    {remembered: other, want: true},
		"gone, unreadable":                      {remembered: "{"},
		"live, and the history has compared it": {live: live("1", record), changed: true, want: true},
		"live, and the history finds no change": {live: live("1", other)},
		"another's, whatever the history found": {live: live("7", other), changed: true},
		"live, the same volumes":                {live: live("1", small), change: asDatabase},
		"live, other volumes":                   {live: live("1", large), change: asDatabase, want: true},
		"another's, other volumes":              {live: live("7", large), change: asDatabase},
		"gone, other volumes":                   {remembered: large, change: asDatabase, want: true},
		"live, of volumes without a record":     {live: live("1", ""), change: asDatabase},
	} {
		d := newAppInput(newWebApp())
		if c.change != nil {
			c.change(d)
		}
		seen := &Observed{Object: c.live, Remembered: Memory{record: workloadRecord{spec: c.remembered}}}
		if got := (decider{in: d, seen: seen}).isChanged(c.changed); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestLastRecords keeps what is remembered within the share of a namespace, and drops it with its owner.
func TestLastRecords(t *testing.T) {
	l := NewRecords()
	key := func(manager, space, owner string) Key {
		return Key{Manager: manager, Owner: types.NamespacedName{Namespace: space, Name: owner}, Workload: "w"}
	}
	half := workloadRecord{spec: strings.Repeat("s", maxNamespaceRecords/2-recordBytes-4), inputs: "1234"}
	one, two, three, other := key("a", namespace, "1"), key("a", namespace, "2"), key("b", namespace, "1"), key("a", "other", "1")
	l.rememberRecord(other, "1", workloadRecord{spec: "other"})
	l.rememberRecord(one, "1", half)
	l.rememberRecord(one, "1", half) // It replaces itself.
	l.rememberRecord(two, "1", half)
	if !l.Recall(one, "1").Known || !l.Recall(two, "1").Known {
		t.Error("what has room is not remembered")
	}
	l.rememberRecord(three, "1", workloadRecord{spec: "s"})
	if l.Recall(one, "1").Known || l.Recall(three, "1").record.spec != "s" || l.Recall(other, "1").record.spec != "other" {
		t.Error("the oldest record of the namespace alone makes room")
	}
	l.rememberRecord(one, "1", workloadRecord{spec: "small"})
	for _, c := range []struct {
		do   func()
		left int
	}{
		{func() { l.ForgetOwner("b", two.Owner) }, 4},
		{func() { l.ForgetOwner("a", one.Owner) }, 3},
		{func() { l.Forget(three) }, 2},
		{func() { l.Forget(three) }, 2},
		{func() { l.Forget(two) }, 1},
		{func() { l.ForgetOwner("a", other.Owner) }, 0},
	} {
		if c.do(); kept(l) != c.left {
			t.Errorf("%d records are left, want %d", kept(l), c.left)
		}
	}
}

// TestForgetKeepsReplaced forgets the record of a database whose StatefulSet is yet to be created again: the number of its pods stays, and the StatefulSet.
func TestForgetKeepsReplaced(t *testing.T) {
	l, key := NewRecords(), Key{Manager: "m", Workload: "db"}
	set := &appsv1.StatefulSet{}
	l.RememberReplaced(key, "1", ptr.To[int32](0))
	l.RememberFormer(key, "1", set)
	l.Forget(key)
	if got := l.Recall(key, "1"); got.Replaced == nil || *got.Replaced != 0 || got.Former != set {
		t.Errorf("%+v is remembered", got)
	}
	l.RememberReplaced(key, "1", nil)
	if got := l.Recall(key, "1"); got.Replaced != nil || got.Former != nil {
		t.Errorf("%+v is still remembered", got)
	}
}

// TestFormerHasBounds remembers StatefulSets that are recreated: those without room have the number of their pods alone, and nothing stays of one that
// lives again, of another owner, and of one that is gone.
func TestFormerHasBounds(t *testing.T) {
	l, owner := NewRecords(), types.NamespacedName{Namespace: "a", Name: "cm"}
	sized := func(bytes int) *appsv1.StatefulSet {
		set := &appsv1.StatefulSet{}
		set.Annotations = map[string]string{"a": strings.Repeat("x", bytes)}
		return set
	}
	remember := func(namespace, name string, bytes int) Key {
		key := Key{Manager: "m", Owner: types.NamespacedName{Namespace: namespace, Name: owner.Name}, Workload: name}
		l.RememberReplaced(key, "1", ptr.To[int32](3))
		l.RememberFormer(key, "1", sized(bytes))
		return key
	}
	for name, bytes := range map[string]int{"large": maxNamespaceFormer, "small": 10} {
		got := l.Recall(remember("a", name, bytes), "1")
		if got.Replaced == nil || *got.Replaced != 3 || (got.Former != nil) != (name == "small") {
			t.Errorf("of a %s one, %+v is remembered", name, got)
		}
	}
	for i := range 40 {
		remember(fmt.Sprintf("n%d", i%20), strconv.Itoa(i), maxNamespaceFormer/2+1)
	}
	if values, bytes := l.former.Used(); bytes > maxFormer || values > 16 {
		t.Errorf("%d StatefulSets take %d bytes", values, bytes)
	}

	key := remember("a", "db", 10)
	l.RememberFormer(key, "1", nil)
	if got := l.Recall(key, "1"); got.Replaced == nil || got.Former != nil {
		t.Errorf("of one that stays, %+v is remembered", got)
	}
	l.RememberFormer(key, "1", sized(10))
	l.RememberFormer(key, "2", sized(10))
	if got := l.Recall(key, "1"); got.Former != nil {
		t.Error("another owner does not drop it")
	}
	l.RememberFormer(key, "1", sized(10))
	l.RememberReplaced(key, "2", ptr.To[int32](1))
	if got := l.Recall(key, "2"); got.Former != nil {
		t.Error("another owner has it")
	}
	l.RememberFormer(key, "2", sized(10))
	l.ForgetOwner("m", owner)
	if _, known := l.former.Get("a", key); known || l.Recall(key, "2").Replaced != nil {
		t.Error("it stays without its owner")
	}
}

// kept returns the number of remembered records.
func kept(l *Records) int {
	n, _ := l.records.Used()
	return n
}

// TestDecideInvalidOfLost adds to a refusal what became of the workload object.
func TestDecideInvalidOfLost(t *testing.T) {
	refusal := reconciler.Stalled(appv1.ReasonInvalid, "spec.a")
	for name, c := range map[string]struct {
		gone   bool
		status appv1.WorkloadStatus
		want   string
	}{
		"it lives":            {false, appv1.WorkloadStatus{Selector: "a=b"}, "spec.a"},
		"it never lived":      {true, appv1.WorkloadStatus{}, "spec.a"},
		"it lived":            {true, appv1.WorkloadStatus{Selector: "a=b"}, "spec.a. Deployment web does not exist and cannot be recreated from an earlier spec"},
		"it lived, as a tier": {true, appv1.WorkloadStatus{Rendering: 1}, "spec.a. Deployment web does not exist and cannot be recreated from an earlier spec"},
	} {
		d := newAppInput(newWebApp())
		d.Before.Workload = c.status
		seen := &Observed{}
		if !c.gone {
			seen.Object = &appsv1.Deployment{}
		}
		want := (decider{in: d, seen: seen}).decideInvalid(&decision{}, refusal)
		_, message := reconciler.ReasonAndMessageOf(want.refusal)
		if message != c.want || want.lost != (c.want != "spec.a") || want.workload != nil {
			t.Errorf("%s: %s, %t", name, message, want.lost)
		}
	}
}

// TestWithTrouble puts together why a spec is refused, and what is in the way of the last applied one.
func TestWithTrouble(t *testing.T) {
	failed := &reconciler.FailedError{Reason: "ApplyFailed", Message: "overloaded", Err: errors.New("503")}
	for name, c := range map[string]struct {
		err     error
		message string
		retry   time.Duration
		stale   bool
	}{
		"nothing":       {nil, "spec.a", 0, false},
		"another error": {failed, "spec.a. The last applied spec is not fully in force: overloaded", Unwatched, false},
		"another owner": {reconciler.Stalled(appv1.ReasonResourceExists, "web"), "spec.a. The last applied spec is not fully in force: web", Unwatched, false},
		"an old view":   {reconciler.ErrStale, "", 0, true},
	} {
		got := withTrouble(reconciler.Stalled(appv1.ReasonInvalid, "spec.a"), c.err)
		if errors.Is(got, reconciler.ErrStale) != c.stale {
			t.Errorf("%s: %v", name, got)
		}
		var stalled *reconciler.StalledError
		if c.stale {
			continue
		}
		if !errors.As(got, &stalled) || stalled.Message != c.message || stalled.RetryAfter != c.retry || stalled.Reason != appv1.ReasonInvalid {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := appendMessage(failed, "more"); !errors.Is(got, error(failed)) {
		t.Errorf("an error that does not stall became %v", got)
	}
}

// TestRecordsOfAnotherOwner remembers a workload of an owner that is deleted and created again: the new owner has nothing of it, and replaces it.
func TestRecordsOfAnotherOwner(t *testing.T) {
	l, key := NewRecords(), Key{Manager: "m", Owner: types.NamespacedName{Namespace: "a", Name: "web"}, Workload: "web"}
	l.rememberWorkload(key, "1", remembrance{record: &workloadRecord{spec: "old"}, declined: &declinedRollback{cause: "old"}})
	l.RememberReplaced(key, "1", ptr.To[int32](3))
	if got := l.Recall(key, "1"); !got.Known || got.declined.cause != "old" || got.Replaced == nil {
		t.Errorf("the owner has %+v", got)
	}
	if got := l.Recall(key, "2"); got.Known || got.declined.cause != "" || got.Replaced != nil {
		t.Errorf("the next owner has %+v", got)
	}
	l.rememberWorkload(key, "2", remembrance{declined: &declinedRollback{cause: "new"}})
	if got := l.Recall(key, "2"); got.Known || got.declined.cause != "new" || got.Replaced != nil {
		t.Errorf("the next owner has %+v", got)
	}
	l.ForgetOwner("m", key.Owner)
	if len(l.owners)+len(l.declined)+len(l.replaced) > 0 {
		t.Error("a deleted owner is remembered")
	}
	l.rememberWorkload(key, "3", remembrance{record: &workloadRecord{spec: "s"}})
	l.rememberFreed(key, "3", freedPorts{err: errors.New("refused")})
	l.Forget(key)
	if got := l.Recall(key, "3"); got.freed.err == nil || got.Known {
		t.Errorf("after the record is forgotten: %+v", got)
	}
	l.rememberFreed(key, "3", freedPorts{})
	l.RememberReplaced(key, "3", ptr.To[int32](1))
	l.RememberReplaced(key, "3", nil)
	if len(l.owners) > 0 {
		t.Error("a workload without a memory has an owner")
	}
}

// TestForeseenRecords has a plan read the records of reconciles, of the same owner alone, and add nothing to them.
func TestForeseenRecords(t *testing.T) {
	l, key := NewRecords(), Key{Manager: "m", Owner: types.NamespacedName{Namespace: "a", Name: "web"}, Workload: "web"}
	l.rememberRecord(key, "1", workloadRecord{spec: "before"})
	plan := l.Foresee()
	if got := plan.Recall(key, "1"); !got.Known || got.record.spec != "before" {
		t.Errorf("a plan remembers %+v", got)
	}
	if got := plan.Recall(key, "2"); got.Known {
		t.Errorf("a plan of another owner remembers %+v", got)
	}
	plan.rememberRecord(key, "1", workloadRecord{spec: "planned"})
	if got := l.Recall(key, "1"); got.record.spec != "before" {
		t.Errorf("after the plan, %+v is remembered", got)
	}
}

// TestRecordsOfRenamedWorkloads has an owner name another workload a thousand times, with each kind of memory: one workload is remembered, and nothing of another
// owner is forgotten.
func TestRecordsOfRenamedWorkloads(t *testing.T) {
	owner := types.NamespacedName{Namespace: "a", Name: "cm"}
	for name, remember := range map[string]func(l *Records, key Key){
		"a record": func(l *Records, key Key) { l.rememberRecord(key, "1", workloadRecord{spec: "s"}) },
		"a long record": func(l *Records, key Key) {
			l.rememberRecord(key, "1", workloadRecord{spec: strings.Repeat("s", maxNamespaceRecords)})
		},
		"a rollout": func(l *Records, key Key) {
			l.rememberWorkload(key, "1", remembrance{declined: &declinedRollback{cause: "c"}})
		},
		"a Service": func(l *Records, key Key) { l.rememberFreed(key, "1", freedPorts{err: errors.New("refused")}) },
		"a StatefulSet": func(l *Records, key Key) {
			l.RememberReplaced(key, "1", ptr.To[int32](3))
			l.RememberFormer(key, "1", &appsv1.StatefulSet{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewRecords()
			other := Key{Manager: "m", Owner: types.NamespacedName{Namespace: "a", Name: "other"}, Workload: "db"}
			remember(l, other)
			for i := range 1000 {
				key := Key{Manager: "m", Owner: owner, Workload: fmt.Sprint("db-", i)}
				l.RetainWorkloads("m", owner, sets.New(key.Workload))
				remember(l, key)
				former, _ := l.former.Used()
				if n := len(l.owners[key.owner()]); n != 1 || max(kept(l), former, len(l.declined), len(l.replaced), len(l.freed)) > 2 {
					t.Fatalf("%d workloads are remembered after %d names: %+v", n, i+1, l)
				}
			}
			if len(l.owners[other.owner()]) != 1 {
				t.Error("the other owner's workload is forgotten")
			}
			l.RetainWorkloads("m", owner, nil)
			if len(l.owners) != 1 {
				t.Errorf("%d owners are remembered, want 1", len(l.owners))
			}
		})
	}
}
