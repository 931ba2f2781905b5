package webhooks

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// +kubebuilder:webhook:path=/validate-app-huolala-cn-v1-uniteddeployment,mutating=false,failurePolicy=ignore,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=2,groups=app.huolala.cn,resources=uniteddeployments,verbs=create;update,versions=v1,name=vuniteddeployment.app.huolala.cn,admissionReviewVersions=v1

func (s *validators) setUpUnitedDeployment(server webhook.Server) {
	serveKind(server, &validator[*appv1.UnitedDeployment]{
		validators: s, kind: resource.KindUnitedDeployment.Name,
		spec:  func(ud *appv1.UnitedDeployment) any { return &ud.Spec },
		empty: func() storedResource[*appv1.UnitedDeployment] { return &stored.UnitedDeployment{} },
		review: func(ctx context.Context, who *asker, ud *appv1.UnitedDeployment) review {
			spec := resource.UnitedDeploymentSpec(ud)
			found := review{
				errors: spec.Validate(), warnings: validation.UnitedDeploymentWarnings(ud), paused: ud.Spec.Paused,
			}
			if ud.Spec.Template == nil || tooMany(found.errors) {
				return found
			}
			built := buildWithDefaults(s.newOptions(ctx, who, ud.Namespace, spec), spec, ud.Name, spec.Build)
			w := built.workload
			found.errors, found.pending = append(found.errors, built.errors...), built.pending
			children := standardObjects(w)
			if !wantsAdoption(ud) { // A Deployment that exists is no obstacle: it is scaled. It is the first object.
				children = children[1:]
			}
			found.specs, found.workloads = []resource.Spec{spec}, []*resource.Workload{w}
			found.children = calledBy(field.NewPath("spec", "deploymentName"), field.NewPath("spec", "template"), w, children...)
			return found
		},
		neighbours: func(ctx context.Context, who *asker, ud, old *appv1.UnitedDeployment, _, _ *review) []string {
			if old != nil && old.Spec.DeploymentName == ud.Spec.DeploymentName {
				return nil
			}
			return s.heldByOthers(ctx, who, ud)
		},
	})
}
