package tiers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// ownSigns are the signs of objects whose marks nobody has edited, editedSigns those of objects whose labels others have edited.
var (
	ownSigns    = Signs{OwnsRole: func(client.Object) bool { return true }, OwnsRecord: func(client.Object) bool { return true }}
	editedSigns = Signs{OwnsRole: func(client.Object) bool { return false }, OwnsRecord: ownSigns.OwnsRecord}
)

// component returns the objects of a component of a tier, with a record unless its image is empty. service is the name of its Service, empty for none.
func component(role resource.Tier, name, service, image string) children.Inventory {
	var w client.Object = &appsv1.Deployment{}
	record := fmt.Sprintf(`{"name":%q,"image":%q,"service":{"name":%q}}`, name, image, service)
	if role == resource.TierDatabase {
		w = &appsv1.StatefulSet{}
		record = strings.Replace(record, "{", `{"storage":{"size":"1Gi"},`, 1)
	}
	if image != "" {
		w.SetAnnotations(map[string]string{appv1.AnnotationLastAppliedSpec: record})
	}
	objects := children.Inventory{withName(w, name)}
	if service != "" {
		objects = append(objects, withName(&corev1.Service{}, service))
	}
	for _, obj := range objects {
		obj.SetLabels(map[string]string{appv1.LabelComponent: string(role)})
	}
	return objects
}

// join returns the objects of several components.
func join(all ...children.Inventory) (owned children.Inventory) {
	for _, objects := range all {
		owned = append(owned, objects...)
	}
	return owned
}

// up makes the workload objects of a component available ones of the CloudManager of TestFreeNames, created at a time.
func up(objects children.Inventory, created int64) children.Inventory {
	for _, obj := range objects {
		obj.SetCreationTimestamp(metav1.Unix(created, 0))
		obj.SetOwnerReferences([]metav1.OwnerReference{{Controller: ptr.To(true)}})
		if d, ok := obj.(*appsv1.Deployment); ok {
			d.Status.ReadyReplicas = 1
		}
	}
	return objects
}

// TestFreeNames checks which tiers keep their last applied specs, as another tier has a name of the present one, and what is said of it.
func TestFreeNames(t *testing.T) {
	db, identity, front := component("db", "db", "db", "db:1"), component("identity", "identity", "identity", "id:1"), component("front", "front", "front", "front:1")
	all := join(db, identity, front)
	for name, c := range map[string]struct {
		owned children.Inventory
		signs Signs
		// names are the names of the components, each with the name of a Service behind a slash if that is another one.
		names, want string
		// taken are the obstacles.
		taken string
	}{
		"nothing is there":          {nil, ownSigns, "db identity front", "db identity front", ""},
		"all have their names":      {all, ownSigns, "db identity front", "db identity front", ""},
		"a name of nobody":          {all, ownSigns, "db new front", "db new front", ""},
		"identity like front":       {all, ownSigns, "db front front", "db identity front", "identity: stalled Deployment front of front"},
		"front like identity":       {all, ownSigns, "db identity identity", "db identity front", "front: stalled Deployment identity of identity"},
		"db like identity":          {all, ownSigns, "identity identity front", "db identity front", "db: stalled Deployment identity of identity"},
		"identity like the Service": {join(component("db", "db", "sql", "db:1"), identity, front), ownSigns, "db/sql sql front", "db/sql identity front", "identity: stalled Service sql of db"},
		"swapped":                   {all, ownSigns, "db front identity", "db identity front", "identity: stalled Deployment front of front; front: stalled Deployment identity of identity"},
		"front leaves its name":     {all, ownSigns, "db front site", "db identity site", "identity: waits Deployment front of front"},
		"db leaves its name":        {all, ownSigns, "base db front", "base identity front", "identity: waits StatefulSet db of db"},
		"a chain":                   {all, ownSigns, "base front db", "base identity front", "identity: waits Deployment front of front; front: waits StatefulSet db of db"},
		"a circle":                  {all, ownSigns, "identity front db", "db identity front", "db: stalled Deployment identity of identity; identity: stalled Deployment front of front; front: stalled StatefulSet db of db"},
		"only a Service is left":    {join(component("db", "base", "base", "db:1"), component("db", "db", "db", "")[1:], identity), ownSigns, "base db front", "base identity front", "identity: waits Service db of db"},
		"another Service":           {all, ownSigns, "db identity/front front/site", "db identity front/site", "identity: waits Service front of front"},
		"no record":                 {join(db, component("identity", "identity", "", ""), front), ownSigns, "db front site", "db front site", "identity: withheld Deployment front of front"},
		"no object":                 {join(db, front), ownSigns, "db front site", "db front site", "identity: withheld Deployment front of front"},
		"two former objects":        {join(all, component("identity", "older", "", "id:0")), ownSigns, "db front site", "db front site", "identity: withheld Deployment front of front"},
		"a former one that is newer and up": {
			join(db, up(component("identity", "newer", "", "id:2"), 9), up(component("identity", "older", "", "id:0"), 5), front), ownSigns,
			"db front site", "db newer site", "identity: waits Deployment front of front",
		},
		"a former one that is newer and not up": {
			join(db, component("identity", "newer", "", "id:2"), up(component("identity", "older", "", "id:0"), -1e11), front), ownSigns, "db front site", "db front site", "identity: withheld Deployment front of front",
		},
		"two former ones of one time": {
			join(db, up(component("identity", "newer", "", "id:2"), 9), up(component("identity", "older", "", "id:0"), 9), front), ownSigns,
			"db front site", "db front site", "identity: withheld Deployment front of front",
		},
		"a label that others edited": {all, editedSigns, "db front site", "db front site", ""},
		"its own of the other type":  {join(all, component("db", "identity", "", "db:2")), ownSigns, "identity other front", "identity other front", "db: withheld Service identity of identity"},
		"a lost Service":             {join(db, identity[:1], front), ownSigns, "db front site/identity", "db identity front", "identity: stalled Deployment front of front; front: stalled Service identity of identity"},
	} {
		cm := &appv1.CloudManager{ObjectMeta: metav1.ObjectMeta{Name: "cm"}}
		for i, stated := range strings.Fields(c.names) {
			of := Rows[i].Role.Component(cm)
			of.Name, of.Service.Name, _ = strings.Cut(stated, "/")
		}
		free, taken := FreeNames(cm, c.owned, c.signs)
		var names, said []string
		for _, row := range Rows {
			of := row.Role.Component(free)
			if names = append(names, of.Name); of.Service.Name != "" && of.Service.Name != of.Name {
				names[len(names)-1] += "/" + of.Service.Name
			}
			if obstacle := taken[row.Role]; obstacle != nil {
				var stalled *reconciler.StalledError
				how := "waits"
				if errors.As(obstacle.Err, &stalled) {
					how = "stalled"
				}
				if obstacle.Withheld {
					how = "withheld"
				}
				said = append(said, fmt.Sprintf("%s: %s %s %s of %s", row.Role, how, obstacle.by.kind, obstacle.by.name, obstacle.by.of))
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: in force are %s, want %s", name, got, c.want)
		}
		if got := strings.Join(said, "; "); got != c.taken {
			t.Errorf("%s: taken are %s, want %s", name, got, c.taken)
		}
	}
}

// TestLastRecordBySeveral has two workload objects of earlier names: the one that the status names stays in force, whether or not it is available, or else the newest one that is.
func TestLastRecordBySeveral(t *testing.T) {
	first := up(component(resource.TierFront, "first", "first", "a"), 1)
	second := func(ready int32) children.Inventory {
		objects := up(component(resource.TierFront, "second", "second", "a"), 2)
		for _, obj := range objects {
			if d, ok := obj.(*appsv1.Deployment); ok {
				d.Status.ReadyReplicas = ready
			}
		}
		return objects
	}
	for name, c := range map[string]struct {
		second children.Inventory
		status string
		want   string
	}{
		"the newest one is up":                       {second(1), "", "second"},
		"the newest one is down":                     {second(0), "", ""},
		"the newest one is down, the status has it":  {second(0), "second", "second"},
		"the status has the older one":               {second(1), "first", "first"},
		"the status has another one":                 {second(1), "other", "second"},
		"the status has another one, and it is down": {second(0), "other", ""},
	} {
		cm := planOf(down, down, down).CloudManager
		cm.UID, cm.Status.Front.Name = "", c.status
		record := lastRecord(cm, resource.TierFront, join(first, c.second), ownSigns)
		if got := WithRecord(cm, resource.TierFront, record); (got != cm) != (c.want != "") || got != cm && got.Spec.Front.Deployment.Name != c.want {
			t.Errorf("%s: the record is %q, want that of %q", name, record, c.want)
		}
	}
}

// TestWithheldTier checks what holds while nothing of a tier is written, as another tier has its name: no other tier is led to it, and it keeps no other tier that it
// cannot use.
func TestWithheldTier(t *testing.T) {
	withheld := func(t *State) {
		t.Taken = &Taken{Err: reconciler.Stalled(appv1.ReasonResourceExists, "taken"), Withheld: true}
		t.Err = errRefused
	}
	p := planOf(available, available, available).with(identity1, withheld)
	if got, want := p.Decide(front2), (Decision{Kept, "identity"}); got != want {
		t.Errorf("front is decided as %+v, want %+v", got, want)
	}
	if p.KnowsGates(front2) || !p.KnowsGates(identity1) {
		t.Error("the tier that front uses is known, or the database is not")
	}
	if p.rename(database0).CanRemovePrevious(database0) {
		t.Error("the former database is removed, which a withheld tier uses")
	}
	p.Tiers[identity1].Availability = absent
	if p.Tiers[front2].Decision = p.Decide(front2); p.Tiers[front2].Decision != (Decision{}) || !p.KnowsGates(front2) {
		t.Errorf("front is decided as %+v while identity has no object", p.Tiers[front2].Decision)
	}
	if !p.CanRemovePrevious(database0) {
		t.Error("a tier without an object keeps the former database")
	}
	for what, c := range map[string]struct {
		change func(*Plan) *Plan
		want   Decision
		gone   bool
	}{
		"front is renamed":    {func(p *Plan) *Plan { return p.rename(front2) }, Decision{}, false},
		"front never existed": {func(p *Plan) *Plan { return p }, Decision{Blocked, "identity"}, true},
		"the Service of identity is left": {func(p *Plan) *Plan {
			return p.lend(identity1).with(front2, func(t *State) { t.Availability, t.Report.Pods.Ready = available, true })
		}, Decision{}, true},
	} {
		p := c.change(planOf(available, absent, absent).with(identity1, withheld).rename(database0))
		if p.Tiers[front2].Decision = p.Decide(front2); p.Tiers[front2].Decision != c.want || p.CanRemovePrevious(database0) != c.gone {
			t.Errorf("%s: front is decided as %+v, and the former database can go: %t", what, p.Tiers[front2].Decision, !c.gone)
		}
	}
	if p.rename(identity1).CanRemovePrevious(database0) {
		t.Error("the former database is removed, which a former object of a withheld tier uses")
	}
	if got := p.Errors()[identity1]; !errors.Is(got, errRefused) {
		t.Errorf("the error is %v", got)
	}
	p.Tiers[identity1].Err = nil
	if c := p.Tiers[identity1].readyCondition(1); c.Reason != appv1.ReasonResourceExists || c.Status != metav1.ConditionFalse {
		t.Errorf("the condition is %+v", c)
	}
}

// TestHoldsService checks when the Service of a renamed tier leads to the former component yet.
func TestHoldsService(t *testing.T) {
	ours := []metav1.OwnerReference{{UID: "cm-uid", Controller: ptr.To(true)}}
	leadingTo := func(part string, owners []metav1.OwnerReference) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owners}, Spec: corev1.ServiceSpec{Selector: map[string]string{appv1.LabelPart: part}}}
	}
	shares := func(t *State) { t.SharesService = true }
	unrecorded := func(t *State) {
		t.PreviousSpec = ""
		t.Previous = []client.Object{&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appv1.LabelPart: "old-front"}}}}}
	}
	theirs := map[string]string{"app": "shop"}
	adopted := func(t *State) {
		t.PreviousSpec = ""
		t.Previous = []client.Object{&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: theirs}}}}
	}
	leadingBy := func(selector map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{OwnerReferences: ours}, Spec: corev1.ServiceSpec{Selector: selector}}
	}
	selects := func(t *State) { t.Selector = theirs }
	for name, c := range map[string]struct {
		plan *Plan
		live *corev1.Service
		want bool
	}{
		"of an adopted component, without a record": {planOf(available, available, down).rename(front2).with(front2, adopted), leadingBy(theirs), true},
		"of another than the adopted component":     {planOf(available, available, down).rename(front2).with(front2, adopted), leadingBy(map[string]string{"app": "other"}), false},
		"the new one is adopted, and was up":        {planOf(available, available, unknown).rename(front2).with(front2, shares).with(front2, selects), leadingBy(theirs), false},
		"the new one is adopted, and was not up":    {planOf(available, available, unknown).rename(front2).with(front2, shares).with(front2, selects), leadingTo("old-front", ours), true},
		"nothing is renamed":                        {planOf(available, available, down), leadingTo("front", ours), false},
		"the new one is not up":                     {planOf(available, available, down).rename(front2).with(front2, shares), leadingTo("old-front", ours), true},
		"its selector is edited":                    {planOf(available, available, down).rename(front2).with(front2, shares), leadingTo("theirs", ours), true},
		"it is deleted":                             {planOf(available, available, absent).rename(front2).with(front2, shares), nil, true},
		"it is another owner's":                     {planOf(available, available, down).rename(front2).with(front2, shares), leadingTo("old-front", nil), false},
		"the new one is up":                         {planOf(available, available, available).rename(front2).with(front2, shares), leadingTo("old-front", ours), false},
		"the new one was up, and is not now":        {planOf(available, available, unknown).rename(front2).with(front2, shares), leadingTo("front", ours), false},
		"a new Service":                             {planOf(available, available, down).rename(front2), nil, false},
		"of a component without a record":           {planOf(available, available, down).rename(front2).with(front2, unrecorded), leadingTo("old-front", ours), true},
		"of a component without a record, deleted":  {planOf(available, available, down).rename(front2).with(front2, unrecorded), nil, false},
	} {
		if got := c.plan.HoldsService(front2, c.live); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	p := planOf(available, available, available).rename(front2).with(front2, shares).with(front2, lent)
	if p.CanRemovePrevious(front2) || p.SpecOfPrevious(front2) == nil {
		t.Error("the clients of the Service have no time to follow")
	}
}

// TestHeldService checks which Service leads to the former component yet: of the present spec, or of the last applied one.
func TestHeldService(t *testing.T) {
	ours := []metav1.OwnerReference{{UID: "cm-uid", Controller: ptr.To(true)}}
	const shop = `{"name":"front","image":"new","service":{"name":"shop"}}`
	former := func(t *State) { t.PreviousSpec = `{"name":"old-front","image":"old","service":{"name":"shop"}}` }
	last := func(record string) func(*State) {
		return func(t *State) { t.LastSpec = record }
	}
	leadingTo := func(part string) func(*State) {
		return func(t *State) {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{OwnerReferences: ours}, Spec: corev1.ServiceSpec{Selector: map[string]string{appv1.LabelPart: part}}}
			t.Previous = append(t.Previous, withName(service, "shop"))
		}
	}
	for name, c := range map[string]struct {
		front   Availability
		changes []func(*State)
		want    string
	}{
		"nothing is renamed":                  {down, nil, ""},
		"of the present spec":                 {down, []func(*State){former, last(shop), func(t *State) { t.SharesService = true }}, "front"},
		"of the last spec":                    {down, []func(*State){former, last(shop), leadingTo("old-front")}, "shop"},
		"of the last spec, and it is deleted": {down, []func(*State){former, last(shop)}, "shop"},
		"of the last spec, edited":            {down, []func(*State){former, last(shop), leadingTo("theirs")}, "shop"},
		"the new one was up":                  {unknown, []func(*State){former, last(shop), leadingTo("front")}, ""},
		"the new one is up":                   {available, []func(*State){former, last(shop), leadingTo("old-front")}, ""},
		"the last spec has another":           {down, []func(*State){former, last(`{"name":"front","image":"new"}`), leadingTo("old-front")}, ""},
		"no last spec is known":               {absent, []func(*State){former, leadingTo("old-front")}, ""},
		"of a former component without a record": {down, []func(*State){
			func(t *State) {
				t.PreviousSpec = ""
				t.Previous = []client.Object{&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appv1.LabelPart: "old-front"}}}}}
			}, last(shop), leadingTo("old-front"),
		}, "shop"},
	} {
		p := planOf(available, available, c.front).rename(front2)
		if name == "nothing is renamed" {
			p = planOf(available, available, c.front)
		}
		for _, change := range c.changes {
			p = p.with(front2, change)
		}
		if got := p.HeldService(front2, nil); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestSharesService compares the names of a component's Service with those of an earlier record.
func TestSharesService(t *testing.T) {
	cm := planOf(down, down, down).CloudManager
	cm.Spec.Front.Deployment.Service.Name = "shop"
	for record, want := range map[string]bool{
		`{"name":"old","image":"a","service":{"name":"shop"}}`: true, `{"name":"shop","image":"a"}`: true, `{"name":"old","image":"a"}`: false, "": false, "no spec": false,
	} {
		if got := SharesService(cm, resource.TierFront, record); got != want {
			t.Errorf("%s: %t, want %t", record, got, want)
		}
	}
}
