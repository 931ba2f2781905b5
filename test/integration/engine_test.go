package integration

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
)

// driver applies children for one owner by the engine itself: kinds of objects that Apps do not have.
type driver struct {
	engine *apply.Engine
	client client.Client
	owner  *appv1.App
	// writes counts its requests that may write.
	writes *atomic.Int32
}

// newDriver returns a driver for a new owner, in a namespace where no manager runs. It reads objects in an encoding of the
// API server's; the manager's is the default.
func newDriver(t *testing.T, ns, name string, encoding ...string) *driver {
	t.Helper()
	d := &driver{owner: newApp(ns, name), writes: &atomic.Int32{}}
	plane.Create(t, d.owner)
	cfg := rest.CopyConfig(plane.Config)
	cfg.ContentType = strings.Join(encoding, "")
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodGet {
				d.writes.Add(1)
			}
			return next.RoundTrip(req)
		})
	})
	var err error
	if d.client, err = client.New(cfg, client.Options{Scheme: plane.Client.Scheme()}); err != nil {
		t.Fatal(err)
	}
	d.engine = apply.New(d.client, d.client, clock.RealClock{})
	return d
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// ref is the owner's reference.
func (d *driver) ref() []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(d.owner, appv1.GroupVersion.WithKind("App"))}
}

// apply applies one child over what lives, and returns what was done to it.
func (d *driver) apply(t *testing.T, child apply.Object) (string, error) {
	t.Helper()
	live := child.Desired.DeepCopyObject().(client.Object)
	switch err := d.client.Get(t.Context(), client.ObjectKeyFromObject(live), live); {
	case err == nil:
		child.Live = live
	case !apierrors.IsNotFound(err):
		t.Fatal(err)
	}
	req := apply.Request{Owner: d.owner, Manager: "app-operator/test", Objects: []apply.Object{child}}
	done, err := d.engine.Run(t.Context(), req, apply.Write)
	changes := done.Changes()
	actions := make([]string, len(changes))
	for i, c := range changes {
		actions[i] = string(c.Action)
	}
	return strings.Join(actions, " "), err
}

// does fails the test unless applying the child does what is said, and sends nothing the second time.
func (d *driver) does(t *testing.T, want apply.Action, child apply.Object) {
	t.Helper()
	for i, want := range []apply.Action{want, apply.Unchanged} {
		d.writes.Store(0)
		got, err := d.apply(t, child)
		if got != string(want) || err != nil {
			t.Fatalf("try %d: %T %s is %s, %v; want %s", i+1, child.Desired, child.Desired.GetName(), got, err, want)
		}
		if n := d.writes.Load(); want == apply.Unchanged && n > 0 {
			t.Fatalf("try %d: %T %s is unchanged, by %d writes", i+1, child.Desired, child.Desired.GetName(), n)
		}
	}
}

// stalls fails the test unless applying the child changes nothing and is stalled for the reason, with these words. It
// returns after how long it is tried again, 0 for never.
func (d *driver) stalls(t *testing.T, child apply.Object, reason string, words ...string) time.Duration {
	t.Helper()
	var was map[string]any
	live := child.Desired.DeepCopyObject().(client.Object)
	if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(live), live); err == nil {
		was = readWhole(t, live)
	}
	got, err := d.apply(t, child)
	var stalled *reconciler.StalledError
	if !errors.As(err, &stalled) || stalled.Reason != reason || got != "" {
		t.Fatalf("%T is %q, %v; want %s", child.Desired, got, err, reason)
	}
	for _, word := range words {
		if !strings.Contains(stalled.Message, word) {
			t.Errorf("the message does not say %q: %s", word, stalled.Message)
		}
	}
	if was == nil {
		plane.Absent(t, live)
	} else {
		checkUntouched(t, live, was)
	}
	return stalled.RetryAfter
}

// TestNodePortTaken asks for a port that another Service has, for a new Service and for one that lives.
func TestNodePortTaken(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	d := newDriver(t, ns, "web")
	other := newHandMadeService(ns, "other")
	other.Spec.Type = corev1.ServiceTypeNodePort
	// In the part of the range that the API server hands out last: once free, nobody else is given it.
	const taken = 30050
	other.Spec.Ports[0].NodePort = taken
	plane.Create(t, other)
	wanted := func(name string, port int32) apply.Object {
		return apply.Object{Desired: &corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: d.ref()},
			Spec: corev1.ServiceSpec{
				Type:     corev1.ServiceTypeNodePort,
				Selector: map[string]string{"app": name},
				Ports:    []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80), NodePort: port}},
			},
		}}
	}
	d.does(t, apply.Created, wanted("live", 0))
	for _, name := range []string{"new", "live"} {
		again := d.stalls(t, wanted(name, taken), appv1.ReasonNodePortTaken, "Service "+name, "spec.ports[0].nodePort", "Another Service")
		if again == 0 {
			t.Error("it is not tried again: nobody is told when a port becomes free")
		}
	}
	d.stalls(t, wanted("new", 80), appv1.ReasonInvalid, "spec.ports[0].nodePort", "30000-32767")
	plane.Delete(t, other)
	d.does(t, apply.Created, wanted("new", taken))
}

// newDriverSecret is a Secret of a driver's owner.
func newDriverSecret(d *driver, password string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.owner.Namespace, Name: "auth", Labels: map[string]string{"app": "db"}, OwnerReferences: d.ref()},
		Data:       map[string][]byte{"username": []byte("root"), "password": []byte(password)},
	}
}

// TestSecretHash changes the values of a Secret: in what is wanted, and by others. The hash tells nothing of them.
func TestSecretHash(t *testing.T) {
	t.Parallel()
	d := newDriver(t, plane.Namespace(t), "db")
	d.does(t, apply.Created, apply.Object{Desired: newDriverSecret(d, "123456")})
	live := newDriverSecret(d, "")
	plane.Read(t, live)
	sum := live.Annotations[appv1.AnnotationLastAppliedHash]
	// More often than a fight is fought.
	for _, password := range strings.Split("abcdefghij", "") {
		d.does(t, apply.Configured, apply.Object{Desired: newDriverSecret(d, password)})
	}
	plane.Read(t, live)
	if got := live.Annotations[appv1.AnnotationLastAppliedHash]; got != sum {
		t.Errorf("the hash was %s and is %s: it tells one password from another", sum, got)
	}
	for i := range 6 {
		plane.Change(t, live, func() { live.Data["password"] = []byte("theirs") }, client.FieldOwner("thief"))
		if i == 5 {
			d.stalls(t, apply.Object{Desired: newDriverSecret(d, "j")}, appv1.ReasonFieldConflict, `"thief"`, ".data.password")
			break
		}
		d.does(t, apply.Repaired, apply.Object{Desired: newDriverSecret(d, "j")})
		plane.Read(t, live)
		if got := string(live.Data["password"]); got != "j" {
			t.Fatalf("the password is %q after the repair", got)
		}
	}
	more := newDriverSecret(d, "j")
	more.Data = map[string][]byte{"password": []byte("j")}
	d.does(t, apply.Configured, apply.Object{Desired: more})
	plane.Read(t, live)
	if diff := cmp.Diff(more.Data, live.Data); diff != "" {
		t.Errorf("a key that is no longer wanted (-want +got):\n%s", diff)
	}
	live.Immutable = ptr.To(true)
	if err := plane.Client.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	d.stalls(t, apply.Object{Desired: newDriverSecret(d, "another")}, appv1.ReasonImmutableField, "data: Forbidden: field is immutable")
}
