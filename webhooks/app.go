package webhooks

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// +kubebuilder:webhook:path=/validate-app-huolala-cn-v1-app,mutating=false,failurePolicy=ignore,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=2,groups=app.huolala.cn,resources=apps;apps/scale,verbs=create;update,versions=v1,name=vapp.app.huolala.cn,admissionReviewVersions=v1

func (s *validators) setUpApp(server webhook.Server) {
	serveKind(server, &validator[*appv1.App]{
		validators: s, kind: resource.KindApp.Name,
		spec:  func(app *appv1.App) any { return &app.Spec },
		empty: func() storedResource[*appv1.App] { return &stored.App{} },
		review: func(ctx context.Context, who *asker, app *appv1.App) review {
			found := s.reviewServed(ctx, who, app, resource.AppSpec(app), app.Name, func(with *validation.Effective) []string {
				return validation.AppWarnings(app, with)
			})
			found.paused = app.Spec.Paused
			return found
		},
		neighbours: func(ctx context.Context, who *asker, app, old *appv1.App, now, before *review) []string {
			said := s.unreadableScale(ctx, who, resource.KindApp.Name, app, app.Spec.Replicas)
			said = append(said, s.unstatedReplicas(ctx, who, app, now.with.Workload, now.with.Serving)...)
			var was *appv1.ServingSpec
			if old != nil {
				was = before.with.Serving
				if was.Autoscaling == nil || now.with.Serving.Autoscaling != nil {
					said = append(said, s.ignoredReplicas(ctx, who, app, old.Spec.Replicas, app.Spec.Replicas)...)
				}
			}
			return append(said, s.aroundOthers(ctx, who, app, now.with.Serving, was, app.Spec.Replicas)...)
		},
	})
}
