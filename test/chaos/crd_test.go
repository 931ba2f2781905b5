package chaos

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// children are those of an App or a ModelBox, and itself, to be read or deleted.
func children(obj client.Object) []client.Object {
	meta := objectMeta(obj.GetNamespace(), obj.GetName())
	return []client.Object{obj, &appsv1.Deployment{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}}
}

// crdRemoved removes the definition of a kind while its resources are worked on, and puts it back. No other kind may suffer
// meanwhile, and this one goes on afterwards.
func crdRemoved(t *testing.T, p *harness.Plane) {
	ns := p.Namespace(t)
	s := &script{plane: p, namespace: ns}
	proxy := p.Proxy(t, nil)
	process := harness.Spawn(t, program, proxy.Config(), ns)
	settled := func(obj harness.Resource) {
		t.Helper()
		p.Until(t, obj, func() error { return s.settled(obj) })
	}
	var took []time.Duration
	runs := of(1, 3)
	for i := range runs {
		box := newModelBox(objectMeta(ns, "box"))
		app := newApp(objectMeta(ns, "app"))
		p.Create(t, box, app)
		settled(box)
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "modelboxes.app.huolala.cn"}}
		p.Delete(t, definition)
		p.Gone(t, definition)
		proxy.Requests.Reset()
		p.Read(t, app)
		p.Change(t, app, func() { roll(&app.(*appv1.App).Spec.WorkloadSpec, i+1) })
		settled(app)
		pause(t, time.Duration(of(3, 20))*time.Second)
		if n := len(proxy.Requests.All()); n > 100 {
			t.Errorf("%d requests while a definition is gone", n)
		}

		if _, err := envtest.InstallCRDs(p.Config, envtest.CRDInstallOptions{
			Paths: []string{filepath.Join(harness.Root(), "config/crd/bases")}, ErrorIfPathMissing: true, MaxTime: harness.Patience,
		}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		again := newModelBox(objectMeta(ns, "again"))
		harness.Eventually(t, func() error { return p.Client.Create(t.Context(), again) })
		settled(again)
		for _, child := range children(again)[1:] {
			p.Read(t, child)
		}
		took = append(took, time.Since(began))
		for _, obj := range append(children(again), append(children(app), children(box)[1:]...)...) {
			p.Delete(t, obj)
		}
	}
	process.Signal(t, syscall.SIGTERM)
	<-process.Ended()
	if code := process.ExitCode(); code != 0 {
		t.Errorf("exit code %d: it did not live to the end", code)
	}
	results.add(t, "definition of a kind removed and put back", runs, took, "the other kinds went on meanwhile")
}
