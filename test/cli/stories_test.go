package cli

import (
	"fmt"
	"slices"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
)

const goodImage = "nginx:1.17.0"

// stories follow each clause of the advice, by its text.
var stories = map[string]func(*testing.T, string){
	// The pods of a change do not come up.
	"Fix spec.image": stalls(goodImageAgain),
	"Fix spec.image: it is not the name of an image":                             stalls(goodImageAgain),
	"Fix the command, the mounts or the security context that the message names": stalls(goodImageAgain),
	"fix its name in the spec":                                                   stalls(goodImageAgain),
	"Fix what the message names":                                                 stalls(goodImageAgain),
	"Fix the field that the message names":                                       invalidPort,
	"give the pods access to its registry with spec.imagePullSecrets": stalls(func(s *appv1.AppSpec) {
		goodImageAgain(s)
		s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	}),
	"Raise resources.limits.memory": stalls(func(s *appv1.AppSpec) {
		goodImageAgain(s)
		s.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
	}),
	"choose a larger spec.size": stalls(func(s *appv1.AppSpec) {
		goodImageAgain(s)
		s.Size, s.Resources = "medium", corev1.ResourceRequirements{}
	}),
	"Create the ConfigMap, Secret or key that the message names": createContent,
	"Request less":              requestLess,
	"run fewer or smaller pods": smallerPods,
	"have the policy changed":   liftPolicy,
	"Or return to what serves: kubectl happ rollback web --to 1" + inAnyNamespace:           rollBackTo,
	"Keep the pods that serve: kubectl happ hold web --to 1" + inAnyNamespace:               keepServing,
	"Once it is suspended there: kubectl happ rollback web --to 1 --force" + inAnyNamespace: rollBackTo,

	// The operator holds the spec back.
	"Once the spec is fixed, let it take effect again: kubectl happ unhold web" + inAnyNamespace: unhold,
	"remove the annotation " + appv1.AnnotationHold:                                              unhold,
	"Name another ReplicaSet in the annotation " + appv1.AnnotationHold:                          holdMissing(func(s *site) { s.annotate(appv1.AnnotationHold, appv1.HoldLastGood) }),
	"remove it": holdMissing(func(s *site) { s.annotate(appv1.AnnotationHold, "") }),
	"Change the spec": rolledBack(func(s *appv1.AppSpec) {
		goodImageAgain(s)
		s.ProgressDeadlineSeconds = nil // A rollout of pods that start may take longer on a busy machine.
	}),
	"try it once more: kubectl happ refresh web" + inAnyNamespace:         rolledBack(nil),
	"accept the earlier revision: kubectl happ hold web" + inAnyNamespace: rolledBack(nil),
	"run the command again: kubectl happ refresh web" + inAnyNamespace:    failedCommand,
	"remove spec.rollback":                                                                                                                 rolledBack(func(s *appv1.AppSpec) { s.Rollback = "" }),
	"spec.canary if a canary was aborted":                                                                                                  abortedCanary,
	"Then roll the change out: kubectl happ promote web" + inAnyNamespace:                                                                  canary(false),
	"remove it: kubectl happ abort web" + inAnyNamespace:                                                                                   canary(true),
	"Resume it: kubectl happ resume web" + inAnyNamespace:                                                                                  resume,
	"It is paused, and nothing is written until you resume it: kubectl happ resume web" + inAnyNamespace:                                   resume,
	"Resume the rollouts: kubectl rollout resume deployment/web" + inAnyNamespace:                                                          resumeRollouts,
	"Resume the rollouts with the command that the message names":                                                                          resumeRollouts,
	"The rollouts are paused, and the pods stay as they are until you resume them: kubectl rollout resume deployment/web" + inAnyNamespace: resumeRollouts,

	// A run of a Task fails.
	"start a run by hand: kubectl create job web-again --from=cronjob/web" + inAnyNamespace: runAgain,

	// A spec cannot be applied.
	"Restore the field that the message names":              immutableField,
	"Choose another nodePort":                               takenNodePort(30011, 30012),
	"none":                                                  takenNodePort(30013, 0),
	"Stop the other writer that the message names":          fights(func(s *appv1.AppSpec) {}),
	"if the spec has the field, set its value there":        fights(func(s *appv1.AppSpec) { s.Ports[0].TargetPort = ptr.To(intstr.FromInt32(9100)) }),
	"Use fewer ConfigMaps and Secrets":                      content(func(s *appv1.AppSpec) { s.EnvFrom = nil }),
	"set spec.configRollout to Never":                       content(func(s *appv1.AppSpec) { s.ConfigRollout = appv1.ConfigRolloutNever }),
	"Install what the message names into the cluster":       missingKind,
	"remove the block from the spec":                        missingKind,
	"Fix the HTTPRoute or the Gateway, as the message says": missingKind,

	// An autoscaler decides the number of pods.
	"Raise spec.autoscaling.maxReplicas if the pods are too slow":                                     autoscaled(func(s *appv1.AppSpec) { s.Autoscaling.MaxReplicas = 9 }),
	"Remove spec.replicas to make this clear":                                                         autoscaled(func(s *appv1.AppSpec) { s.Replicas = nil }),
	"Remove spec.autoscaling: the other HorizontalPodAutoscaler goes on to decide the number of pods": otherAutoscaler,
	"To have its figures in the App, state them in spec.autoscaling and delete it":                    takeFigures,

	// An object of others has the name of a child.
	"Rename this resource":                      rename,
	"rename this resource":                      rename,
	"have it name other objects":                nameOthers,
	"Have this resource name other objects":     serviceOfOthers,
	"have this resource name another object":    serviceInTheWay(func(s *appv1.AppSpec) { s.Service.Name = "web-app" }),
	"remove the block that asks for the object": serviceInTheWay(func(s *appv1.AppSpec) { s.Ports = nil }),
	"Where it is a Service that selects other pods, name another one in spec.service.name":                          adopts(otherService),
	"Have the spec ask for what the object has":                                                                     adopts(otherService),
	"remove the annotation " + appv1.AnnotationAdopt + ": the object stays as it is":                                adopts(func(s *site) { s.annotate(appv1.AnnotationAdopt, "") }),
	"kubectl happ adopt web" + inAnyNamespace + " takes it over without a restart, and refuses what would need one": adopt,
	"take over what exists, without a restart: kubectl happ adopt web" + inAnyNamespace:                             adopt,
	"See what a takeover would replace, and decide then: kubectl happ adopt web --restart" + inAnyNamespace:         adopt,
	`resume it with "%s"`: resumeRollouts,

	// A UnitedDeployment holds a Deployment, or makes one.
	"Create the Deployment, fix spec.deploymentName":                                                 heldDeployment,
	"state spec.template":                                                                            heldDeployment,
	"Without spec.template, name another Deployment in spec.deploymentName":                          scaledTwice(false),
	"With it, set spec.replicas to the number of pods that run, and remove the autoscaler of others": scaledTwice(true),

	// The database of a CloudManager.
	"Move the password to a Secret, and name that in spec.db.rootPassSecretRef": movePassword,
	"Restore the password that the database was started with":                   otherPassword,
	"Create the Secret with the key that the message names":                     missingSecret,
	"Restore the size of the storage":                                           resizedStorage,
	"resize the claims that the message names":                                  resizedStorage,
	"Restore the Secret that the message names":                                 lostPassword,
	"set spec.db.rootPassSecretRef":                                             lostPassword,
}

func goodImageAgain(s *appv1.AppSpec) { s.Image = goodImage }

// story starts with an App that is Ready.
func story(play func(s *site, clause string)) func(*testing.T, string) {
	return func(t *testing.T, clause string) {
		t.Helper()
		play(newSite(t), clause)
	}
}

// stalls has an image that cannot be pulled, and ends with another spec.
func stalls(remedy func(*appv1.AppSpec)) func(*testing.T, string) {
	return story(func(s *site, _ string) {
		s.troubled(appv1.ReasonImagePullBackOff, func(spec *appv1.AppSpec) { spec.Image = badImage })
		s.advises("web", "Fix spec.image")
		s.change(remedy)
		s.ready()
		s.keeps()
	})
}

var (
	invalidPort = story(func(s *site, clause string) {
		s.troubled(appv1.ReasonInvalid, func(spec *appv1.AppSpec) { spec.Service.Type, spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 80 })
		s.advises("web", clause)
		s.change(func(spec *appv1.AppSpec) { spec.Ports[0].NodePort = 0 })
		s.ready()
		s.keepsPods()
	})
	createContent = story(func(s *site, _ string) {
		s.change(func(spec *appv1.AppSpec) {
			spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
		})
		s.ready()
		plane.Create(s, &corev1.ConfigMap{ObjectMeta: fixture.Meta(s.u.namespace, "settings"), Data: map[string]string{"a": "b"}})
		s.ready()
		s.keeps()
	})
	requestLess = story(func(s *site, clause string) {
		request := func(cpu string) func(spec *appv1.AppSpec) {
			return func(spec *appv1.AppSpec) {
				spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
			}
		}
		s.troubled(appv1.ReasonUnschedulable, request("9999"))
		s.advises("web", clause)
		s.change(request("10m"))
		s.ready()
		s.keeps()
	})
	smallerPods = story(func(s *site, clause string) {
		quota := &corev1.ResourceQuota{ObjectMeta: fixture.Meta(s.u.namespace, "some")}
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}
		plane.Create(s, quota)
		plane.Until(s, quota, func() error { return lacksQuota(quota) })
		s.troubled(appv1.ReasonQuotaExceeded, func(spec *appv1.AppSpec) { spec.Replicas = ptr.To[int32](5) })
		s.advises("web", clause)
		s.change(func(spec *appv1.AppSpec) { spec.Replicas = ptr.To[int32](3) })
		s.ready()
		s.keepsPods()
	})
	liftPolicy = story(func(s *site, clause string) {
		limits := &corev1.LimitRange{ObjectMeta: fixture.Meta(s.u.namespace, "some")}
		limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}
		plane.Create(s, limits)
		s.troubled(appv1.ReasonPodsRejected, func(spec *appv1.AppSpec) {
			spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		})
		s.advises("web", clause)
		plane.Delete(s, limits)
		s.change(goodImageAgain)
		s.ready()
		s.keeps()
	})
	rollBackTo = story(func(s *site, clause string) {
		s.troubled(appv1.ReasonImagePullBackOff, func(spec *appv1.AppSpec) { spec.Image = badImage })
		if clause == "Or return to what serves: kubectl happ rollback web --to 1"+inAnyNamespace {
			s.advises("web", clause)
		}
		s.follows(clause, "--yes")
		s.ready()
		s.keepsPods()
	})
	keepServing = story(func(s *site, clause string) {
		defaults := &appv1.AppDefaults{ObjectMeta: fixture.Meta(s.u.namespace, appv1.AppDefaultsName)}
		defaults.Spec.Defaults.NodeSelector = map[string]string{"disk": "none"}
		plane.Create(s, defaults)
		plane.Until(s, s.app, func() error { return lacksDefaults(s.app) })
		s.annotate(appv1.AnnotationRefresh, "1")
		s.reports(appv1.ReasonUnschedulable)
		s.advises("web", clause)
		s.follows(clause, "--yes")
		s.reports(appv1.ReasonHeld)
		s.settles()
		s.keepsPods()
	})
	unhold = story(func(s *site, clause string) {
		s.change(goodImageAgain)
		s.ready()
		s.note()
		s.u.run("hold", "web", "--to", "1", "--yes")
		s.reports(appv1.ReasonHeld)
		s.settles()
		s.advises("web", clause)
		if printedCommand.MatchString(clause) {
			s.follows(clause, "--yes")
		} else {
			s.annotate(appv1.AnnotationHold, "")
		}
		s.ready()
		s.keeps()
	})
	abortedCanary = story(func(s *site, clause string) {
		s.change(func(spec *appv1.AppSpec) { spec.Canary = &appv1.CanarySpec{} })
		s.ready()
		s.troubled(appv1.ReasonCanary, goodImageAgain)
		s.u.run("abort", "web", "--yes")
		s.reports(appv1.ReasonRolledBack)
		s.advises("web", clause)
		s.change(func(spec *appv1.AppSpec) { spec.Canary = nil })
		s.ready()
		s.keeps()
	})
	resume = story(func(s *site, clause string) {
		s.change(func(spec *appv1.AppSpec) { spec.Paused = true })
		s.troubled(appv1.ReasonPaused, goodImageAgain)
		if clause == "Resume it: kubectl happ resume web"+inAnyNamespace {
			s.advises("web", clause)
		}
		s.follows(clause)
		s.ready()
		s.keeps()
	})
	resumeRollouts = story(func(s *site, clause string) {
		d := fixture.Deployment(s.app)
		plane.Read(s, d)
		plane.Change(s, d, func() { d.Spec.Paused = true })
		s.troubled(appv1.ReasonRolloutPaused, goodImageAgain)
		const command = "Resume the rollouts: kubectl rollout resume deployment/web" + inAnyNamespace
		s.advises("web", command)
		s.follows(command)
		s.ready()
		s.keeps()
	})
	immutableField = story(func(s *site, clause string) {
		s.troubled(appv1.ReasonImmutableField, func(spec *appv1.AppSpec) { spec.Service.ClusterIP = corev1.ClusterIPNone })
		s.advises("web", clause)
		s.change(func(spec *appv1.AppSpec) { spec.Service.ClusterIP = "" })
		s.ready()
		s.keepsPods()
	})
	missingKind = story(func(s *site, clause string) {
		s.change(func(spec *appv1.AppSpec) {
			spec.HTTPRoute = &appv1.HTTPRouteSpec{ParentRefs: []appv1.ParentRef{{Name: "public"}}, Hostnames: []appv1.Hostname{"shop.example.com"}}
		})
		s.change(func(spec *appv1.AppSpec) { spec.HTTPRoute = nil })
		s.ready()
		s.keepsPods()
	})
)

// lacksDefaults returns an error until the status of an App has earlier defaults than the present ones.
func lacksDefaults(app *appv1.App) error {
	if is := app.Status.Defaults; is == nil || is.Current {
		return errNotYet
	}
	return nil
}

// lacksQuota returns an error until the status of a quota has its limits: no limit is in force before.
func lacksQuota(quota *corev1.ResourceQuota) error {
	if len(quota.Status.Hard) == 0 {
		return errNotYet
	}
	return nil
}

// holdMissing holds a revision that does not exist.
func holdMissing(remedy func(*site)) func(*testing.T, string) {
	return story(func(s *site, clause string) {
		s.annotate(appv1.AnnotationHold, "web-none")
		s.reports(appv1.ReasonRevisionNotFound)
		s.advises("web", clause)
		remedy(s)
		plane.Until(s, s.app, func() error {
			if standing(s.app, appv1.ReasonReady) != nil && standing(s.app, appv1.ReasonHeld) != nil {
				return errNotYet
			}
			return nil
		})
		s.keepsPods()
	})
}

// failedCommand has the command before a rollout fail, and runs it again: the pods of before go on in both cases.
func failedCommand(t *testing.T, clause string) {
	t.Helper()
	s := newSite(t)
	s.change(func(spec *appv1.AppSpec) {
		spec.BeforeRollout, spec.Image = &appv1.BeforeRolloutSpec{Command: []string{"/app/migrate"}}, "jobfails.test/web:1"
	})
	s.reports(appv1.ReasonBeforeRolloutFailed)
	s.advises("web", clause)
	before := meta.FindStatusCondition(s.app.Status.Conditions, appv1.ConditionApplied).Message
	s.follows(clause, "--yes")
	plane.Until(s, s.app, func() error { // The message names the Job.
		if meta.FindStatusCondition(s.app.Status.Conditions, appv1.ConditionApplied).Message == before {
			return errNotYet
		}
		return standing(s.app, appv1.ReasonBeforeRolloutFailed)
	})
	s.keepsPods()
}

// rolledBack has a change that the operator rolls back. Without another spec, the command of the clause is the remedy.
func rolledBack(remedy func(*appv1.AppSpec)) func(*testing.T, string) {
	return func(t *testing.T, clause string) {
		s := newSite(t, func(spec *appv1.AppSpec) {
			spec.Rollback, spec.ProgressDeadlineSeconds = appv1.RollbackOnStall, ptr.To[int32](3)
		})
		s.troubled(appv1.ReasonRolledBack, func(spec *appv1.AppSpec) { spec.Image = badImage })
		if clause != "remove spec.rollback" {
			s.advises("web", clause)
		}
		if remedy != nil {
			s.change(remedy)
		} else {
			s.follows(clause, "--yes")
		}
		switch {
		case s.app.Spec.Image == goodImage:
			s.ready()
			s.keeps()
			return
		case remedy != nil:
			s.reports(appv1.ReasonImagePullBackOff)
		default:
			plane.Until(s, s.app, func() error {
				if standing(s.app, appv1.ReasonRolledBack) != nil && standing(s.app, appv1.ReasonHeld) != nil {
					return errNotYet
				}
				return nil
			})
		}
		s.keepsPods()
	}
}

// canary runs a change in a canary, which is promoted or aborted.
func canary(abort bool) func(*testing.T, string) {
	return story(func(s *site, clause string) {
		s.change(func(spec *appv1.AppSpec) { spec.Canary = &appv1.CanarySpec{} })
		s.ready()
		s.troubled(appv1.ReasonCanary, goodImageAgain)
		plane.Stands(s, s.app, "CanaryReady=True")
		s.advises("web", clause)
		s.follows(clause, "--yes")
		if abort {
			s.reports(appv1.ReasonRolledBack)
			s.keepsPods()
			return
		}
		s.ready()
		s.keeps()
	})
}

// takenNodePort asks for a port of the nodes that another Service has, and then for another one. The API server gives none of these ports by itself.
func takenNodePort(taken, free int32) func(*testing.T, string) {
	return story(func(s *site, clause string) {
		other := &corev1.Service{ObjectMeta: fixture.Meta(s.u.namespace, "other")}
		other.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: taken}}}
		plane.Create(s, other)
		s.troubled(appv1.ReasonNodePortTaken, func(spec *appv1.AppSpec) {
			spec.Service.Type, spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, taken
		})
		s.advises("web", clause)
		s.change(func(spec *appv1.AppSpec) { spec.Ports[0].NodePort = free })
		s.ready()
		s.keepsPods()
	})
}

// fights has another writer that keeps changing the port of the Service.
func fights(remedy func(*appv1.AppSpec)) func(*testing.T, string) {
	return story(func(s *site, clause string) {
		service, port := fixture.Service(s.app), int32(9000)
		edit := func() {
			port++
			plane.Read(s, service)
			plane.Change(s, service, func() { service.Spec.Ports[0].TargetPort = intstr.FromInt32(port) }, client.FieldOwner("intruder"))
		}
		plane.Until(s, s.app, func() error { // Without another edit, the operator repairs the field after ten seconds.
			if standing(s.app, appv1.ReasonFieldConflict) != nil {
				edit()
				return errNotYet
			}
			if advice := s.advice("web"); !slices.Contains(advice, clause) {
				return fmt.Errorf("the advice is %q", advice)
			}
			return nil
		})
		s.change(remedy)
		s.ready()
		s.keeps()
	})
}

// content has pods that use a ConfigMap, and a change of the spec.
func content(remedy func(*appv1.AppSpec)) func(*testing.T, string) {
	return func(t *testing.T, _ string) {
		s := newSite(t, func(spec *appv1.AppSpec) {
			spec.ConfigRollout = appv1.ConfigRolloutOnChange
			spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
		})
		s.change(remedy)
		s.ready()
		s.keeps()
	}
}

// scaler returns an autoscaler of others without metrics, which keeps to its minimum.
func (s *site) scaler(name string, least int32) *autoscalingv2.HorizontalPodAutoscaler {
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: fixture.Meta(s.u.namespace, name)}
	scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = ptr.To(least), 6
	return scaler
}
