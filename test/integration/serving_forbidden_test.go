package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// TestServingForbiddenInOneNamespace takes the rights to all that is optional away in one of two namespaces, before the manager starts: resources
// of the other namespace have it. When the rights are back, so have those of the first.
func TestServingForbiddenInOneNamespace(t *testing.T) {
	t.Parallel()
	p := optionalPlane{complete.start(t)}
	allowed, forbidden := p.Namespace(t), p.Namespace(t)
	served := maps.Clone(blocks)
	maps.Copy(served, optionalBlocks)
	delete(served, "autoscaling") // Without the right to list autoscalers, the manager does not work.
	refused := map[string]bool{"jobs": true, "cronjobs": true}
	for _, b := range served {
		resource, _, _ := strings.Cut(b.resource, ".")
		refused[resource] = true
	}
	var given atomic.Bool
	p.Start(t, allowed, harness.WithNamespaces(forbidden), harness.WithLookAgain(2*time.Second), harness.WithFault(
		func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if q.Namespace == forbidden && refused[q.Resource] && !given.Load() {
				return harness.Answer(apierrors.NewForbidden(schema.GroupResource{Resource: q.Resource}, q.Name, errors.New("no right"))), nil
			}
			return send()
		}))
	made := map[string][]harness.Resource{}
	for _, ns := range []string{forbidden, allowed} {
		for name, b := range served {
			app := newApp(ns, strings.ToLower(name))
			b.set(&app.Spec.ServingSpec)
			made[ns] = append(made[ns], app)
		}
		made[ns] = append(made[ns], fixture.NewTask(ns, "task"))
		for _, obj := range made[ns] {
			p.Create(t, obj)
		}
	}
	stand := func(ns, app, task string) {
		t.Helper()
		for _, obj := range made[ns] {
			if _, ok := obj.(*appv1.App); ok {
				p.Stands(t, obj, app)
			} else {
				p.Stands(t, obj, task)
			}
		}
	}
	stand(forbidden, "Applied=False/Forbidden", "Ready=False/Forbidden")
	stand(allowed, "Applied=True", "Ready=True")
	given.Store(true)
	stand(forbidden, "Applied=True", "Ready=True")
}

// TestNamespaceWithoutRights starts a manager that has no rights in one of two namespaces: it works in the other one, and is ready. When the rights
// are there, the manager goes on as before.
func TestNamespaceWithoutRights(t *testing.T) {
	t.Parallel()
	allowed, forbidden, address := plane.Namespace(t), plane.Namespace(t), harness.FreeAddress(t)
	var given atomic.Bool
	var looks atomic.Int32
	plane.Start(t, allowed, harness.WithNamespaces(forbidden), harness.WithProbes(address), harness.WithLookAgain(200*time.Millisecond), harness.WithFault(
		func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if q.Namespace != forbidden {
				return send()
			}
			if !given.Load() {
				return harness.Answer(apierrors.NewForbidden(schema.GroupResource{Resource: q.Resource}, q.Name, errors.New("no right"))), nil
			}
			looks.Add(1)
			return send()
		}))
	awaitProbe(t, address, "readyz", http.StatusOK)
	left := newApp(forbidden, "web")
	plane.Create(t, left)
	createInPlace(t, newApp(allowed, "web"))
	given.Store(true)
	harness.Eventually(t, func() error {
		if n := looks.Load(); n < 3 {
			return fmt.Errorf("%d looks have succeeded", n)
		}
		return nil
	})
	awaitProbe(t, address, "readyz", http.StatusOK)
	createInPlace(t, newApp(allowed, "api"))
	plane.Absent(t, deployment(left))
}
