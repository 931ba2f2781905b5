package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// withoutNulls removes nulls and empty objects of lists' neighbours from what is to be applied: they would be stated.
func withoutNulls(value any) any {
	parts, ok := value.(map[string]any)
	if !ok {
		if items, ok := value.([]any); ok {
			for i := range items {
				items[i] = withoutNulls(items[i])
			}
		}
		return value
	}
	for name, part := range parts {
		if part = withoutNulls(part); part == nil || name == "resources" || name == "status" || name == "selector" && part == nil {
			delete(parts, name)
		} else {
			parts[name] = part
		}
	}
	return parts
}

// applyPart server-side applies a part of an object as another manager.
func applyPart(t *testing.T, part client.Object, opts ...client.PatchOption) error {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(marshalJSON(t, part), &fields); err != nil {
		t.Fatal(err)
	}
	target := part.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is the copy of one.
	return plane.Client.Patch(t.Context(), target, client.RawPatch(types.ApplyPatchType, marshalJSON(t, withoutNulls(fields))),
		append(opts, client.FieldOwner("argocd"))...)
}

// TestAppliedAlternativeIsRepaired applies the alternatives as another manager, by force and without. Many are refused, as
// server-side apply does not remove what is ours. The others are repaired by one change, and the next image rolls out.
func TestAppliedAlternativeIsRepaired(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	taken := make(chan string, 2*len(alternatives))
	t.Run("by", func(t *testing.T) {
		for name, c := range alternatives {
			for how, opts := range map[string][]client.PatchOption{"request": nil, "force": {client.ForceOwnership}} {
				t.Run(how+"-"+name, func(t *testing.T) {
					t.Parallel()
					app := newApp(ns, how+"-"+name)
					c.state(app)
					d, _ := createInPlace(t, app)
					want, strategy, generation := d.Spec.Template.DeepCopy(), d.Spec.Strategy, d.Generation
					part := &appsv1.Deployment{ObjectMeta: *d.ObjectMeta.DeepCopy()}
					part.APIVersion, part.Kind = "apps/v1", "Deployment"
					part.ManagedFields, part.ResourceVersion, part.Labels = nil, "", nil
					part.Annotations, part.OwnerReferences, part.Generation = nil, nil, 0
					part.Spec.Template.Spec.Containers = []corev1.Container{{Name: app.Name, Image: containerOf(d).Image, Ports: containerOf(d).Ports}}
					c.edit(part)
					if err := applyPart(t, part, opts...); err != nil {
						if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
							t.Errorf("it is refused otherwise: %v", err)
						}
						return
					}
					taken <- t.Name()
					plane.Until(t, d, func() error {
						if diff := cmp.Diff(want, &d.Spec.Template); diff != "" || !cmp.Equal(strategy, d.Spec.Strategy) {
							return fmt.Errorf("not repaired: %v\n%s", listEvents(t, app), diff)
						}
						return nil
					})
					if n := d.Generation - generation; n != 0 && n != 2 {
						t.Errorf("the generation went up by %d, want one for the edit and one for the repair", n)
					}
					setImage(t, app, "nginx:2")
					awaitImage(t, d, "nginx:2")
					plane.Stands(t, app, progressing...)
				})
			}
		}
	})
	if len(taken) < 6 {
		t.Errorf("%d applies were taken: the test shows nothing", len(taken))
	}
	for range len(taken) {
		t.Log(<-taken)
	}
}

// serviceAlternatives are changes of a Service that cannot stand next to what the App states.
var serviceAlternatives = map[string]struct {
	state func(*appv1.App)
	edit  func(*corev1.Service)
}{
	"affinity": {
		func(app *appv1.App) { app.Spec.Service.SessionAffinity = corev1.ServiceAffinityNone },
		func(s *corev1.Service) {
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)}}
		},
	},
	"type-unstated": {
		func(*appv1.App) {},
		func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
	},
	"affinity-config": {
		func(app *appv1.App) { app.Spec.Service.SessionAffinity = corev1.ServiceAffinityClientIP },
		func(s *corev1.Service) {
			s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
		},
	},
	"port-renamed": {
		func(app *appv1.App) {
			app.Spec.Ports = []appv1.Port{{Name: "a", Port: 80}, {Name: "b", Port: 81}}
		},
		func(s *corev1.Service) { s.Spec.Ports[0].Name = "c" },
	},
	"port-renumbered": {
		func(app *appv1.App) {
			app.Spec.Ports = []appv1.Port{{Name: "a", Port: 80}, {Name: "b", Port: 81}}
		},
		func(s *corev1.Service) { s.Spec.Ports[0].Port = 82 },
	},
	"port-names-swapped": {
		func(app *appv1.App) {
			app.Spec.Ports = []appv1.Port{{Name: "a", Port: 80}, {Name: "b", Port: 81}}
		},
		func(s *corev1.Service) { s.Spec.Ports[0].Name, s.Spec.Ports[1].Name = "b", "a" },
	},
	"port-added": {
		func(app *appv1.App) { app.Spec.Ports[0].Name = "a" },
		func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "x", Port: 99, TargetPort: intstr.FromInt32(99)})
		},
	},
	"type-to-node-port": {
		func(app *appv1.App) { app.Spec.Service.Type = corev1.ServiceTypeClusterIP },
		func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
		},
	},
	"type-to-load-balancer": {
		func(app *appv1.App) { app.Spec.Service.Type = corev1.ServiceTypeClusterIP },
		func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
			s.Spec.LoadBalancerClass, s.Spec.AllocateLoadBalancerNodePorts = ptr.To("a.example/b"), ptr.To(false)
			s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
		},
	},
	"type-from-node-port": {
		func(app *appv1.App) {
			app.Spec.Service.Type, app.Spec.Service.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
		},
		func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeClusterIP, ""
			s.Spec.Ports[0].NodePort = 0
		},
	},
	"external-name": {
		func(app *appv1.App) { app.Spec.Service.Type = corev1.ServiceTypeClusterIP },
		func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "a.example"
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
		},
	},
}

// TestServiceAlternativeIsRepaired changes Services by hand. Each is repaired in one pass, and a new port is then offered.
func TestServiceAlternativeIsRepaired(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	for name, c := range serviceAlternatives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := newApp(ns, name)
			c.state(app)
			_, s := createInPlace(t, app)
			want := serviceOf(s)
			plane.Change(t, s, func() { c.edit(s) }, client.FieldOwner("kubectl-edit"))
			plane.Until(t, s, func() error {
				if diff := cmp.Diff(want, serviceOf(s)); diff != "" {
					return fmt.Errorf("not repaired: %v\n%s", listEvents(t, app), diff)
				}
				return nil
			})
			plane.Stands(t, app, progressing...)
			plane.Read(t, app)
			plane.Change(t, app, func() {
				app.Spec.Ports = append(app.Spec.Ports, appv1.Port{Name: "new", Port: 9000})
				app.Spec.Ports[0].Name = "first"
			})
			plane.Until(t, s, func() error {
				if n := len(s.Spec.Ports); n != len(app.Spec.Ports) {
					return fmt.Errorf("%d ports are offered: %v", n, listEvents(t, app))
				}
				return nil
			})
			plane.Stands(t, app, progressing...)
		})
	}
}

// serviceOf is a Service's spec without what the cluster chooses.
func serviceOf(s *corev1.Service) corev1.ServiceSpec {
	spec := *s.Spec.DeepCopy()
	spec.ClusterIP, spec.ClusterIPs = "", nil
	for i := range spec.Ports {
		spec.Ports[i].NodePort = 0
	}
	return spec
}

// TestStatefulSetAlternativeIsRepaired changes a database's StatefulSet by hand. It is repaired in one pass, and the next image
// rolls out.
func TestStatefulSetAlternativeIsRepaired(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state func(*appv1.CloudManager)
		edit  func(*appsv1.StatefulSet)
		keeps bool // What others may state of it stays.
	}{
		"on-delete": {func(*appv1.CloudManager) {}, func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		}, false},
		"partition": {func(*appv1.CloudManager) {}, func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}}
		}, true},
		"volume": {func(cm *appv1.CloudManager) {
			cm.Spec.DB.StatefulSet.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, func(s *appsv1.StatefulSet) {
			s.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/a"}}}}
		}, false},
		"variable": {func(cm *appv1.CloudManager) {
			cm.Spec.DB.StatefulSet.Envs = []corev1.EnvVar{{Name: "A", Value: "a"}}
		}, func(s *appsv1.StatefulSet) {
			for i := range s.Spec.Template.Spec.Containers[0].Env {
				if e := &s.Spec.Template.Spec.Containers[0].Env[i]; e.Name == "A" {
					*e = corev1.EnvVar{Name: "A", ValueFrom: fieldSource}
				}
			}
		}, false},
		"renamed": {func(*appv1.CloudManager) {}, func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Name = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			cm := newCloudManager(ns)
			c.state(cm)
			bringUpTiers(t, cm)
			set := namedStatefulSet(ns, "db")
			plane.Read(t, set)
			want, generation := set.Spec.DeepCopy(), set.Generation
			plane.Change(t, set, func() { c.edit(set) }, client.FieldOwner("kubectl-edit"))
			if c.keeps {
				m.Idle(t)
			} else {
				harness.Eventually(t, func() error {
					plane.Read(t, set)
					if diff := cmp.Diff(want, &set.Spec); diff != "" {
						return fmt.Errorf("not repaired: %v\n%s", listEvents(t, cm), diff)
					}
					return nil
				})
				if n := set.Generation - generation; n != 2 {
					t.Errorf("the generation went up by %d, want one for the edit and one for the repair", n)
				}
			}
			plane.Read(t, cm)
			plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Image = "mariadb:11" })
			plane.Until(t, set, func() error {
				if got := set.Spec.Template.Spec.Containers[0].Image; got != "mariadb:11" {
					return fmt.Errorf("the image is %s: %s", got, strings.Join(listEvents(t, cm), "\n"))
				}
				return nil
			})
		})
	}
}
