package integration

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestServiceTypes changes the Service's type over all there are and back. The Service must stay the same one, with its
// address and the port of the nodes that the spec states, and keep nothing of a type that it no longer has.
func TestServiceTypes(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Ports[0].NodePort = 30041
	app.Spec.Service.Annotations = map[string]string{"lb.example.com/kind": "inner"}
	app.Spec.Service.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	d, s := createInPlace(t, app)
	template, first := d.Spec.Template, s.DeepCopy()
	if d.Annotations["lb.example.com/kind"] != "" || s.Annotations["lb.example.com/kind"] != "inner" {
		t.Error("the Service's annotations are not on the Service alone")
	}

	for _, c := range []struct {
		typ      corev1.ServiceType
		nodePort int32
		policy   corev1.ServiceExternalTrafficPolicy
		health   bool
	}{
		{corev1.ServiceTypeClusterIP, 0, "", false},
		{corev1.ServiceTypeNodePort, 30041, "Local", false},
		{corev1.ServiceTypeLoadBalancer, 30041, "Local", true},
		{corev1.ServiceTypeClusterIP, 0, "", false},
		{corev1.ServiceTypeLoadBalancer, 30041, "Local", true},
		{corev1.ServiceTypeNodePort, 30041, "Local", false},
		{corev1.ServiceTypeClusterIP, 0, "", false},
	} {
		plane.Read(t, app)
		plane.Change(t, app, func() { app.Spec.Service.Type = c.typ })
		plane.Stands(t, app, progressing...)
		plane.Read(t, s)
		if s.UID != first.UID || s.Spec.ClusterIP != first.Spec.ClusterIP {
			t.Errorf("as %s, the Service is another one, or has the address %s in place of %s", c.typ, s.Spec.ClusterIP, first.Spec.ClusterIP)
		}
		if s.Spec.Type != c.typ || s.Spec.Ports[0].NodePort != c.nodePort || s.Spec.ExternalTrafficPolicy != c.policy ||
			(s.Spec.HealthCheckNodePort != 0) != c.health {
			t.Errorf("the Service is %+v, want %+v", s.Spec, c)
		}
	}
	if err := diffOf(first.Spec, s.Spec); err != nil {
		t.Errorf("Service as in the beginning: %v", err)
	}
	sameTemplate(t, d, template)
}

// TestHeadless makes a headless Service, and asks for an address afterwards, and the other way round. Neither can be: the
// Service must stay as it is, and the App say why and go on once the change is taken back.
func TestHeadless(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	for name, clusterIP := range map[string]string{"from-headless": corev1.ClusterIPNone, "to-headless": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := newApp(ns, name)
			app.Spec.Service.ClusterIP = clusterIP
			_, s := createInPlace(t, app)
			if (s.Spec.ClusterIP == corev1.ClusterIPNone) != (clusterIP != "") {
				t.Fatalf("the Service has the address %s", s.Spec.ClusterIP)
			}
			was := readWhole(t, s)
			plane.Change(t, app, func() {
				app.Spec.Service.ClusterIP = ""
				if clusterIP == "" {
					app.Spec.Service.ClusterIP = corev1.ClusterIPNone
				}
			})
			plane.Stands(t, app, "Ready=False/ImmutableField", "Stalled=True/ImmutableField")
			harness.Says(t, app, "Stalled", "Service "+name, "clusterIP", "delete the Service")
			m.Idle(t)
			checkUntouched(t, s, was)

			plane.Change(t, app, func() { app.Spec.Service.ClusterIP = clusterIP })
			plane.Stands(t, app, progressing...)
			checkUntouched(t, s, was)
			setImage(t, app, "nginx:1.17")
			awaitImage(t, deployment(app), "nginx:1.17")
		})
	}
}

// TestNodePortOfAnother asks for a port of the nodes that another Service has. The App must say so, and get it once it is
// free, or another one once the spec says so.
func TestNodePortOfAnother(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	holder := newApp(ns, "holder")
	holder.Spec.Ports[0].NodePort, holder.Spec.Service.Type = 30042, corev1.ServiceTypeNodePort
	createInPlace(t, holder)

	app := newApp(ns, "web")
	_, s := createInPlace(t, app)
	address := s.Spec.ClusterIP
	plane.Change(t, app, func() { app.Spec.Ports[0].NodePort, app.Spec.Service.Type = 30042, corev1.ServiceTypeNodePort })
	plane.Stands(t, app, "Ready=False/"+appv1.ReasonNodePortTaken, "Stalled=True/"+appv1.ReasonNodePortTaken)
	harness.Says(t, app, "Stalled", "Service web", "30042", "nodePort")
	if plane.Read(t, s); s.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("the Service has become %s", s.Spec.Type)
	}

	plane.Change(t, app, func() { app.Spec.Ports[0].NodePort = 30043 })
	plane.Stands(t, app, progressing...)
	if plane.Read(t, s); s.Spec.Ports[0].NodePort != 30043 || s.Spec.ClusterIP != address {
		t.Errorf("the Service is %+v", s.Spec)
	}
}

// TestNodePortOutOfRange asks for a port that the cluster gives to no Service.
func TestNodePortOutOfRange(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Ports[0].NodePort, app.Spec.Service.Type = 80, corev1.ServiceTypeNodePort
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/Invalid", "Stalled=True/Invalid")
	harness.Says(t, app, "Stalled", "Service web", "spec.ports[0].nodePort", "80")
}

// TestLoadBalancerClass changes what cannot be changed while the type stays.
func TestLoadBalancerClass(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns, "web")
	class := "example.com/a"
	app.Spec.Service.Type, app.Spec.Service.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &class
	_, s := createInPlace(t, app)
	was := readWhole(t, s)
	plane.Change(t, app, func() { other := "example.com/b"; app.Spec.Service.LoadBalancerClass = &other })
	plane.Stands(t, app, "Ready=False/ImmutableField", "Stalled=True/ImmutableField")
	harness.Says(t, app, "Stalled", "Service web", "spec.loadBalancerClass")
	checkUntouched(t, s, was)

	// By way of another type it can.
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Service.Type, app.Spec.Service.LoadBalancerClass = corev1.ServiceTypeNodePort, nil })
	plane.Stands(t, app, progressing...)
	plane.Change(t, app, func() {
		other := "example.com/b"
		app.Spec.Service.Type, app.Spec.Service.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &other
	})
	plane.Stands(t, app, progressing...)
	plane.Until(t, s, func() error {
		if class := s.Spec.LoadBalancerClass; class == nil || !strings.HasSuffix(*class, "/b") {
			return errors.New("the class is not that of the spec")
		}
		return nil
	})
}
