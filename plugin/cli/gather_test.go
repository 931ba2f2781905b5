package cli

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// withoutRights answers as an API server whose user may list none of the types around the pods, and which serves these resources.
func withoutRights(served ...string) func(*http.Request, string) runtime.Object {
	return func(q *http.Request, body string) runtime.Object {
		if strings.HasSuffix(q.URL.Path, "/selfsubjectaccessreviews") {
			review := &authorizationv1.SelfSubjectAccessReview{}
			if _, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(body), nil, review); err != nil {
				return status(apierrors.NewBadRequest(err.Error()))
			}
			asked := review.Spec.ResourceAttributes
			review.Status.Allowed = !slices.ContainsFunc(view.AroundTypes, func(t view.AroundType) bool { return t.Resource.Resource == asked.Resource })
			return review
		}
		for i := range view.AroundTypes {
			kind := view.AroundTypes[i].Resource
			version := q.URL.Path == "/apis/"+kind.GroupVersion().String() || kind.Group == "" && q.URL.Path == "/api/"+kind.Version
			switch {
			case strings.HasSuffix(q.URL.Path, "/"+kind.Resource):
				return status(apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: kind.Resource}, "", nil))
			case version && slices.Contains(served, kind.Resource):
				return &metav1.APIResourceList{GroupVersion: kind.GroupVersion().String(), APIResources: []metav1.APIResource{{Name: kind.Resource}}}
			}
		}
		return nil
	}
}

// TestKindsThatTheClusterLacks has a user without the right to list the types around the pods: that is in the way of a deletion, and of what
// check says of it, for each type that the cluster has, and for no other.
func TestKindsThatTheClusterLacks(t *testing.T) {
	app, d := &appv1.App{ObjectMeta: objectMeta("web")}, &appsv1.Deployment{ObjectMeta: objectMeta("web")}
	d.OwnerReferences = []metav1.OwnerReference{{UID: app.UID, Controller: ptr.To(true)}}
	served := []string{""}
	for i := range view.AroundTypes {
		served = append(served, view.AroundTypes[i].Resource.Resource)
	}
	for _, kind := range served {
		f := newFakeServer(t, map[string]runtime.Object{"apps/web": app})
		without := withoutRights(kind)
		f.answer = func(q *http.Request, body string) runtime.Object {
			if q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/deployments") {
				return &appsv1.DeploymentList{Items: []appsv1.Deployment{*d}}
			}
			return without(q, body)
		}
		code, out, said := f.run(t, "eject", "web", "--delete", "--yes")
		if deleted := slices.ContainsFunc(f.writes, func(w string) bool { return strings.HasPrefix(w, "DELETE") }); deleted != (kind == "") || (code == 0) != deleted {
			t.Errorf("the cluster has %q: exit status %d, writes %q\n%s%s", kind, code, f.writes, out, said)
		}
		if kind != "" && !strings.Contains(said, "not printed: ") {
			t.Errorf("the cluster has %q, which is not said:\n%s", kind, said)
		}
		_, out, said = f.run(t, "check")
		want := "rights       all commands"
		if kind != "" {
			want = "eject --delete   you may not list " + kind
		}
		if !strings.Contains(out, want) {
			t.Errorf("the cluster has %q: want %q in\n%s%s", kind, want, out, said)
		}
	}
}

// TestEjectWithoutChildren says of a resource that has no child yet that it has none.
func TestEjectWithoutChildren(t *testing.T) {
	f := newFakeServer(t, map[string]runtime.Object{"uniteddeployments/uu": &appv1.UnitedDeployment{ObjectMeta: objectMeta("uu")}})
	if code, _, said := f.run(t, "eject", "ud/uu"); code != 1 || !strings.Contains(said, `has no child yet; see "kubectl happ why uniteddeployment/uu -n shop"`) {
		t.Errorf("exit status %d: %s", code, said)
	}
}

// withLargePods returns an API server with an App and a number of pods of others below it, each of 1 MiB.
func withLargePods(t *testing.T, count int) *fakeServer {
	t.Helper()
	f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}})
	pod := corev1.Pod{ObjectMeta: objectMeta("web-0")}
	pod.Annotations = map[string]string{"a": strings.Repeat("x", 1<<20)}
	f.answer = func(q *http.Request, _ string) runtime.Object {
		if strings.HasSuffix(q.URL.Path, "/services") {
			service := corev1.Service{ObjectMeta: objectMeta("web")}
			return &corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}, Items: []corev1.Service{service}}
		}
		if strings.HasSuffix(q.URL.Path, "/pods") {
			return &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: slices.Repeat([]corev1.Pod{pod}, count)}
		}
		return nil
	}
	return f
}

// TestLargePods views an App with many large pods of others below it: what is read of them has a limit, and the command goes on without them.
func TestLargePods(t *testing.T) {
	for count, shown := range map[int]bool{maxSnapshot>>20 - 1: true, maxSnapshot>>20 + 1: false} {
		code, out, said := withLargePods(t, count).run(t, "why", "web")
		if missing := strings.Contains(out+said, "Pods (the objects of this page are longer than 32 MiB)"); missing == shown {
			t.Errorf("with %d MiB of pods: exit status %d\n%s%s", count, code, out, said)
		}
	}
}

// TestLargePodsOfViewer reads the same App for the pages of a viewer, whose limit is lower, and of a user.
func TestLargePodsOfViewer(t *testing.T) {
	kind, _ := view.KindOf("app")
	for count, shown := range map[int]map[bool]bool{maxShared>>20 - 1: {true: true, false: true}, maxShared>>20 + 1: {true: false, false: true}} {
		for viewer, want := range shown {
			o := uiOptions{viewer: viewer}
			s, err := o.newReader(withLargePods(t, count).clients(t)).ReadSnapshot(t.Context(), kind, namespaceOfTests, "web")
			if err != nil {
				t.Fatal(err)
			}
			limited := slices.Equal(s.Missing, []view.Missing{{Kinds: "Pods", Why: "the objects of this page are longer than 4 MiB"}})
			if (len(s.Pods) == count) != want || limited == want || !want && len(s.Services) != 1 {
				t.Errorf("with %d MiB of pods, viewer %t: %d pods, not shown: %v", count, viewer, len(s.Pods), s.Missing)
			}
		}
	}
}

// TestNotShownHasNoAddress lists pods and a kind of resources by a connection that breaks: what is not shown has the reason, and on a page not the address
// of the API server.
func TestNotShownHasNoAddress(t *testing.T) {
	f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}})
	f.answer = func(q *http.Request, _ string) runtime.Object {
		if strings.HasSuffix(q.URL.Path, "/pods") || strings.HasSuffix(q.URL.Path, "/tasks") {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	kind, _ := view.KindOf("app")
	read := map[string]func(c *clients) ([]view.Missing, error){
		"a resource": func(c *clients) ([]view.Missing, error) {
			s, err := c.readSnapshot(t.Context(), target{kind, namespaceOfTests, "web"}, true)
			if err != nil {
				return nil, err
			}
			return s.Missing, nil
		},
		"the list": func(c *clients) ([]view.Missing, error) {
			_, missing, err := c.listSelected(t.Context(), &selection{})
			return missing, err
		},
	}
	var wait sync.WaitGroup // client-go tries each broken request for some seconds.
	defer wait.Wait()
	for isPage, shown := range map[bool]bool{true: false, false: true} {
		for what, of := range read {
			c := f.clients(t)
			c.isPage = isPage
			wait.Go(func() {
				missing, err := of(c)
				if err != nil || len(missing) != 1 || !strings.HasPrefix(missing[0].Why, "they cannot be listed: ") || strings.Contains(missing[0].Why, "127.0.0.1") != shown {
					t.Errorf("page %t: not shown of %s: %q %v", isPage, what, missing, err)
				}
			})
		}
	}
}
