package cli

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// errNotYet is the error of a state that is not the wanted one yet.
var errNotYet = errors.New("not yet")

// autoscaled has an autoscaler of its own.
func autoscaled(remedy func(*appv1.AppSpec)) func(*testing.T, string) {
	return func(t *testing.T, _ string) {
		s := newSite(t)
		s.change(func(spec *appv1.AppSpec) {
			spec.Autoscaling = &appv1.AutoscalingSpec{MinReplicas: ptr.To[int32](3), MaxReplicas: 5}
		})
		s.scaledTo(3)
		s.note()
		s.change(remedy)
		s.ready()
		s.keepsPods()
	}
}

// scaledTo waits until a number of pods is ready.
func (s *site) scaledTo(pods int32) {
	s.Helper()
	d := fixture.Named[appsv1.Deployment](s.u.namespace, "web")
	plane.Until(s, d, func() error {
		if d.Status.AvailableReplicas != pods {
			return errNotYet
		}
		return nil
	})
}

// otherAutoscaler has an autoscaler of others that has scaled the Deployment, next to a spec with another number of pods.
func otherAutoscaler(t *testing.T, clause string) {
	s := newSite(t)
	plane.Create(t, s.scaler("theirs", 4))
	s.scaledTo(4)
	s.note()
	s.change(func(spec *appv1.AppSpec) {
		spec.Autoscaling = &appv1.AutoscalingSpec{MinReplicas: ptr.To[int32](1), MaxReplicas: 5}
	})
	plane.Stands(t, s.app, "Autoscaled=False/"+appv1.ReasonAutoscalerExists)
	s.change(func(spec *appv1.AppSpec) { spec.Autoscaling = nil })
	plane.Stands(t, s.app, "Applied=True")
	plane.Read(t, s.app)
	s.keepsPods()
}

// takeFigures has an imported App under an autoscaler of another name, which the App replaces.
func takeFigures(t *testing.T, _ string) {
	s := newSite(t, func(spec *appv1.AppSpec) { spec.Replicas = nil })
	theirs := s.scaler("theirs", 4)
	plane.Create(t, theirs)
	s.scaledTo(4)
	s.note()
	s.change(func(spec *appv1.AppSpec) {
		spec.Autoscaling = &appv1.AutoscalingSpec{MinReplicas: ptr.To[int32](4), MaxReplicas: 6}
	})
	plane.Stands(t, s.app, "Autoscaled=False/"+appv1.ReasonAutoscalerExists)
	plane.Delete(t, theirs)
	ours := s.scaler("web", 0)
	plane.Until(t, ours, func() error { return nil })
	plane.Stands(t, s.app, "Applied=True")
	s.keepsPods()
}

// serviceOfOthers has an App that serves, whose spec has come to name a Service of other pods.
func serviceOfOthers(t *testing.T, clause string) {
	s := newSite(t)
	other := handMade(s.u.namespace)
	other.Name = "other"
	theirs := handMadeService(s.u.namespace)
	theirs.Name = "other"
	plane.Create(t, other, theirs)
	s.note()
	s.troubled(appv1.ReasonResourceExists, func(spec *appv1.AppSpec) { spec.Service.Name = "other" })
	s.advises("web", clause)
	s.change(func(spec *appv1.AppSpec) { spec.Service.Name = "" })
	s.ready()
	s.keepsPods()
}

// serviceInTheWay has an App that serves, and a Service of others with the name of the Service that its spec has come to ask for.
func serviceInTheWay(remedy func(*appv1.AppSpec)) func(*testing.T, string) {
	return func(t *testing.T, clause string) {
		s := emptySite(t, administrator(t))
		s.create(func(spec *appv1.AppSpec) { spec.Ports = nil })
		s.ready()
		plane.Create(t, handMadeService(s.u.namespace))
		s.note()
		s.troubled(appv1.ReasonResourceExists, func(spec *appv1.AppSpec) { spec.Ports = []appv1.Port{{Port: 8080}} })
		s.advises("web", clause)
		if remedy == nil {
			s.renames()
			return
		}
		s.settles() // The new port has rolled the pods.
		s.change(remedy)
		s.ready()
		s.keeps()
	}
}

// renames gives the App another name: it is deleted, and created by that name.
func (s *site) renames() {
	s.Helper()
	renamed := fixture.NewApp(s.u.namespace, "renamed")
	renamed.Spec = *s.app.Spec.DeepCopy()
	plane.Delete(s, s.app)
	plane.Gone(s, s.app)
	plane.Create(s, renamed)
	plane.Stands(s, renamed, "Ready=True")
	s.keepsPods()
}

// rename renames an App that has nothing of its own yet, as all of its name belongs to others.
func rename(t *testing.T, clause string) {
	s := handMadeSite(t)
	if clause == "Rename this resource" { // With an object that cannot be adopted.
		s.give(fixture.Named[appsv1.Deployment](s.u.namespace, "web"))
		plane.Until(t, s.app, func() error {
			if !strings.Contains(harness.Message(s.app, "Ready"), "is owned by ConfigMap owner") {
				return errNotYet
			}
			return nil
		})
	}
	s.advises("web", clause)
	s.renames()
}

// give gives an object to another owner.
func (s *site) give(obj client.Object) {
	s.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: fixture.Meta(s.u.namespace, "owner")}
	plane.Create(s, owner)
	plane.Read(s, obj)
	plane.Change(s, obj, func() {
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}})
	})
}

// nameOthers has a CloudManager whose database has the name of a StatefulSet of another owner, and then another name.
func nameOthers(t *testing.T, clause string) {
	s := emptySite(t, administrator(t))
	theirs := fixture.Named[appsv1.StatefulSet](s.u.namespace, "db")
	labels := map[string]string{"shop": "a"}
	theirs.Spec.Selector, theirs.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	theirs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "db", Image: goodImage}}
	plane.Create(t, theirs)
	plane.Until(t, theirs, func() error {
		if theirs.Status.ReadyReplicas != 1 {
			return errNotYet
		}
		return nil
	})
	s.give(theirs)
	s.note()
	office := fixture.NewCloudManager(s.u.namespace, "office")
	plane.Create(t, office)
	plane.Stands(t, office, "Ready=False/"+appv1.ReasonResourceExists)
	s.advises("cmgr/office", clause)
	s.changes(office, func(o *appv1.CloudManager) { o.Spec.DB.StatefulSet.Name = "data" }, "Ready=True")
	s.keepsPods()
}

// handMadeSite has a Deployment and a Service of others with the name of an App, and the App that import prints.
func handMadeSite(t *testing.T) *site {
	u := planner(t)
	s := emptySite(t, u)
	d := handMade(u.namespace)
	d.Spec.Template.Labels["shop"] = "a"
	plane.Create(t, d, handMadeService(u.namespace))
	s.app = imported(t, u)
	s.scaledTo(2)
	s.note()
	return s
}

// adopt takes over a Deployment and a Service of others, by the command of the clause.
func adopt(t *testing.T, clause string) {
	s := handMadeSite(t)
	s.follows(clause, "--yes")
	plane.Stands(t, s.app, "Applied=True", "Ready=True")
	if printedCommand.FindString(clause) == "kubectl happ adopt web --restart"+inAnyNamespace {
		s.keeps()
		return
	}
	s.keepsPods()
}

// adopts has an adoption that would need a restart, as the Service selects other labels.
func adopts(remedy func(*site)) func(*testing.T, string) {
	return func(t *testing.T, clause string) {
		s := handMadeSite(t)
		service := handMadeService(s.u.namespace)
		plane.Read(t, service)
		plane.Change(t, service, func() { service.Spec.Selector = map[string]string{"team": "a"} })
		s.note()
		s.annotate(appv1.AnnotationAdopt, appv1.AdoptWithoutRestart)
		s.reports(appv1.ReasonAdoptionRestarts)
		s.advises("web", clause)
		remedy(s)
		if s.app.Annotations[appv1.AnnotationAdopt] == "" {
			s.reports(appv1.ReasonResourceExists)
		} else {
			plane.Stands(t, s.app, "Applied=True", "Ready=True")
		}
		s.keepsPods()
	}
}

func otherService(s *site) { s.change(func(spec *appv1.AppSpec) { spec.Service.Name = "web-app" }) }

// heldDeployment has a UnitedDeployment whose Deployment does not exist.
func heldDeployment(t *testing.T, clause string) {
	s := newSite(t)
	united := fixture.NewUnitedDeployment(s.u.namespace, "united", "missing")
	plane.Create(t, united)
	plane.Stands(t, united, "Ready=False/"+appv1.ReasonDeploymentNotFound)
	s.advises("hud/united", clause)
	plane.Read(t, united)
	plane.Change(t, united, func() { united.Spec.Template = &appv1.WorkloadSpec{Image: goodImage} })
	plane.Stands(t, united, "Ready=True")
	s.keepsPods()
}

// scaledTwice has a UnitedDeployment with a template or without one, and an autoscaler of others that scales the same Deployment to four pods.
func scaledTwice(template bool) func(*testing.T, string) {
	return func(t *testing.T, clause string) {
		s := emptySite(t, administrator(t))
		united := fixture.NewUnitedDeployment(s.u.namespace, "web", "web")
		free := handMade(s.u.namespace)
		free.Name = "free"
		plane.Create(t, free)
		if template {
			united.Spec.Template = &appv1.WorkloadSpec{Image: goodImage, PodFields: appv1.PodFields{PodLabels: map[string]string{"shop": "a"}}, Ports: []appv1.Port{{Port: 80}}}
		} else {
			d := handMade(s.u.namespace)
			d.Spec.Template.Labels["shop"] = "a"
			plane.Create(t, d)
		}
		plane.Create(t, united)
		plane.Stands(t, united, "Ready=True")
		theirs := s.scaler("theirs", 4)
		plane.Create(t, theirs)
		s.scaledTo(4)
		s.note()
		plane.Stands(t, united, "Ready=False/"+appv1.ReasonScaleConflict)
		s.advises("hud/web", clause)
		plane.Read(t, united)
		if template {
			plane.Change(t, united, func() { united.Spec.Replicas = ptr.To[int32](4) })
			// No order holds between events of two kinds. With the deletion seen first, the former number counts once more.
			plane.Stands(t, united, "Ready=False/"+appv1.ReasonScaleConflict)
			plane.Delete(t, theirs)
		} else {
			plane.Change(t, united, func() { united.Spec.DeploymentName = "free" })
		}
		plane.Stands(t, united, "Ready=True")
		s.keepsPods()
	}
}

// newOffice returns a site with a CloudManager that is Ready.
func newOffice(t *testing.T, change func(*appv1.CloudManager)) (*site, *appv1.CloudManager) {
	t.Helper()
	s := emptySite(t, administrator(t))
	office := fixture.NewCloudManager(s.u.namespace, "office")
	change(office)
	plane.Create(t, office)
	plane.Stands(t, office, "Ready=True", "Applied=True")
	s.note()
	return s, office
}

// changes changes the spec of a CloudManager and waits for its conditions.
func (s *site) changes(office *appv1.CloudManager, mutate func(*appv1.CloudManager), conditions ...string) {
	s.Helper()
	plane.Read(s, office)
	plane.Change(s, office, func() { mutate(office) })
	plane.Stands(s, office, conditions...)
}

const password = "a-password-of-the-office"

// secretOf creates a Secret with the password.
func (s *site) secretOf(name string) {
	s.Helper()
	plane.Create(s, &corev1.Secret{ObjectMeta: fixture.Meta(s.u.namespace, name), StringData: map[string]string{"password": password}})
}

// movePassword has the password in the spec, and moves it to a Secret.
func movePassword(t *testing.T, _ string) {
	s, office := newOffice(t, func(o *appv1.CloudManager) { o.Spec.DB.RootPass = password })
	s.secretOf("mine")
	s.changes(office, func(o *appv1.CloudManager) {
		o.Spec.DB.RootPass, o.Spec.DB.RootPassSecretRef = "", &appv1.SecretKeyRef{Name: "mine"}
	}, "Ready=True", "Applied=True")
	s.keepsPods()
}

func otherPassword(t *testing.T, clause string) {
	s, office := newOffice(t, func(o *appv1.CloudManager) { o.Spec.DB.RootPass = password })
	s.changes(office, func(o *appv1.CloudManager) { o.Spec.DB.RootPass = "another-one" }, "Ready=False/"+appv1.ReasonPasswordMismatch)
	s.advises("cmgr/office", clause)
	s.changes(office, func(o *appv1.CloudManager) { o.Spec.DB.RootPass = password }, "Ready=True", "Applied=True")
	s.keepsPods()
}

func missingSecret(t *testing.T, clause string) {
	s, office := newOffice(t, func(o *appv1.CloudManager) { o.Spec.DB.RootPass = password })
	s.changes(office, func(o *appv1.CloudManager) {
		o.Spec.DB.RootPass, o.Spec.DB.RootPassSecretRef = "", &appv1.SecretKeyRef{Name: "mine"}
	}, "Ready=False/"+appv1.ReasonSecretNotFound)
	s.advises("cmgr/office", clause)
	s.secretOf("mine")
	plane.Stands(t, office, "Ready=True", "Applied=True")
	s.keepsPods()
}

func resizedStorage(t *testing.T, clause string) {
	s, office := newOffice(t, func(*appv1.CloudManager) {})
	resize := func(size string) func(*appv1.CloudManager) {
		return func(o *appv1.CloudManager) { o.Spec.DB.StatefulSet.Storage.Size = resource.MustParse(size) }
	}
	s.changes(office, resize("10Gi"), "Stalled=True/"+appv1.ReasonVolumeResizeFailed)
	s.changes(office, resize("20Gi"), "Ready=True", "Applied=True")
	s.keepsPods()
}

// lostPassword has volumes of an earlier CloudManager whose password nobody knows, next to an App that serves.
func lostPassword(t *testing.T, clause string) {
	s, office := newOffice(t, func(o *appv1.CloudManager) { o.Spec.DB.RootPass = password })
	plane.Delete(t, office)
	plane.Gone(t, office)
	set := fixture.Named[appsv1.StatefulSet](s.u.namespace, "db")
	plane.Gone(t, set)
	plane.Delete(t, fixture.Named[corev1.Secret](s.u.namespace, "dbauth"))
	s.create()
	s.ready()
	s.note()
	again := fixture.NewCloudManager(s.u.namespace, "office")
	plane.Create(t, again)
	plane.Stands(t, again, "Ready=False/"+appv1.ReasonPasswordLost)
	s.advises("cmgr/office", clause)
	s.secretOf("mine")
	s.changes(again, func(o *appv1.CloudManager) { o.Spec.DB.RootPassSecretRef = &appv1.SecretKeyRef{Name: "mine"} }, "Ready=True")
	s.keepsPods()
}
