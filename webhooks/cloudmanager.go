package webhooks

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// +kubebuilder:webhook:path=/validate-app-huolala-cn-v1-cloudmanager,mutating=false,failurePolicy=ignore,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=2,groups=app.huolala.cn,resources=cloudmanagers,verbs=create;update,versions=v1,name=vcloudmanager.app.huolala.cn,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/mutate-app-huolala-cn-v1-cloudmanager,mutating=true,failurePolicy=ignore,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=2,groups=app.huolala.cn,resources=cloudmanagers,verbs=create,versions=v1,name=mcloudmanager.app.huolala.cn,admissionReviewVersions=v1

func (s *validators) setUpCloudManager(server webhook.Server) {
	server.Register("/mutate-app-huolala-cn-v1-cloudmanager", newAdmission(&defaulter{names: componentNames}))
	serveKind(server, &validator[*appv1.CloudManager]{
		validators: s, kind: resource.KindCloudManager.Name,
		spec:  func(cm *appv1.CloudManager) any { return &cm.Spec },
		empty: func() storedResource[*appv1.CloudManager] { return &stored.CloudManager{} },
		review: func(ctx context.Context, who *asker, cm *appv1.CloudManager) review {
			return reviewCloudManager(cm, func(spec resource.Spec) resource.BuildOptions {
				return s.newOptions(ctx, who, cm.Namespace, spec)
			})
		},
	})
}

// componentNames are the names of the components of a CloudManager that states none.
func componentNames(name string) map[string]string {
	cm := &appv1.CloudManager{}
	cm.Name = name
	cm.DefaultNames()
	return map[string]string{
		"front/deployment/name":    cm.Spec.Front.Deployment.Name,
		"identity/deployment/name": cm.Spec.Identity.Deployment.Name,
		"db/statefulSet/name":      cm.Spec.DB.StatefulSet.Name,
	}
}

func reviewCloudManager(given *appv1.CloudManager, options func(resource.Spec) resource.BuildOptions) review {
	named := *given // DefaultNames changes names alone, and a spec can have a MiB.
	cm := &named
	cm.DefaultNames()
	errs := validation.CloudManager(cm)
	if all := slices.Concat(errs.Database, errs.Identity, errs.Front); tooMany(all) {
		return review{errors: all}
	}
	var specs []resource.Spec
	var pending field.ErrorList
	build := func(t resource.Tier) (*resource.Workload, field.ErrorList) {
		spec := resource.TierSpec(cm, t)
		built := buildWithDefaults(options(spec), spec, cm.Name, spec.Build)
		specs, pending = append(specs, spec), append(pending, built.pending...)
		return built.workload, built.errors
	}
	db, dbWrong := build(resource.TierDatabase)
	identity, identityWrong := build(resource.TierIdentity)
	front, frontWrong := build(resource.TierFront)
	found := review{
		errors:    slices.Concat(errs.Database, dbWrong, errs.Identity, identityWrong, errs.Front, frontWrong),
		pending:   pending,
		warnings:  validation.CloudManagerWarnings(cm),
		paused:    cm.Spec.Paused,
		specs:     specs,
		workloads: []*resource.Workload{db, identity, front},
	}
	spec := field.NewPath("spec")
	found.children = slices.Concat(
		calledBy(spec.Child("db", "statefulSet", "name"), spec.Child("db", "statefulSet"), db, standardObjects(db)...),
		calledBy(spec.Child("identity", "deployment", "name"), spec.Child("identity", "deployment"), identity, standardObjects(identity)...),
		calledBy(spec.Child("front", "deployment", "name"), spec.Child("front", "deployment"), front, standardObjects(front)...),
	)
	return found
}
