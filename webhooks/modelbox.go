package webhooks

import (
	"cmp"
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// +kubebuilder:webhook:path=/validate-app-huolala-cn-v1-modelbox,mutating=false,failurePolicy=ignore,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=2,groups=app.huolala.cn,resources=modelboxes;modelboxes/scale,verbs=create;update,versions=v1,name=vmodelbox.app.huolala.cn,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/mutate-app-huolala-cn-v1-modelbox,mutating=true,failurePolicy=ignore,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=2,groups=app.huolala.cn,resources=modelboxes,verbs=create,versions=v1,name=mmodelbox.app.huolala.cn,admissionReviewVersions=v1

func (s *validators) setUpModelBox(server webhook.Server) {
	server.Register("/mutate-app-huolala-cn-v1-modelbox", newAdmission(&defaulter{
		names: func(name string) map[string]string { return map[string]string{"name": name} },
	}))
	serveKind(server, &validator[*appv1.ModelBox]{
		validators: s, kind: resource.KindModelBox.Name,
		spec:  func(box *appv1.ModelBox) any { return &box.Spec },
		empty: func() storedResource[*appv1.ModelBox] { return &stored.ModelBox{} },
		review: func(ctx context.Context, who *asker, box *appv1.ModelBox) review {
			found := s.reviewServed(ctx, who, box, resource.ModelBoxSpec(box), cmp.Or(box.Spec.Name, box.Name), func(with *validation.Effective) []string {
				return validation.ModelBoxWarnings(box, with)
			})
			found.paused = box.Spec.Paused
			return found
		},
		neighbours: func(ctx context.Context, who *asker, box, old *appv1.ModelBox, now, before *review) []string {
			said := s.unreadableScale(ctx, who, resource.KindModelBox.Name, box, box.Spec.Replicas)
			said = append(said, s.unstatedReplicas(ctx, who, box, now.with.Workload, now.with.Serving)...)
			var was *appv1.ServingSpec
			if old != nil {
				was = before.with.Serving
				if was.Autoscaling == nil || now.with.Serving.Autoscaling != nil {
					said = append(said, s.ignoredReplicas(ctx, who, box, old.Spec.Replicas, box.Spec.Replicas)...)
				}
			}
			return append(said, s.aroundOthers(ctx, who, box, now.with.Serving, was, box.Spec.Replicas)...)
		},
	})
}
