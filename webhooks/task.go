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

// +kubebuilder:webhook:path=/validate-app-huolala-cn-v1-task,mutating=false,failurePolicy=ignore,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=2,groups=app.huolala.cn,resources=tasks,verbs=create;update,versions=v1,name=vtask.app.huolala.cn,admissionReviewVersions=v1

func (s *validators) setUpTask(server webhook.Server) {
	serveKind(server, &validator[*appv1.Task]{
		validators: s, kind: resource.KindTask.Name,
		spec:  func(task *appv1.Task) any { return &task.Spec },
		empty: func() storedResource[*appv1.Task] { return &stored.Task{} },
		review: func(ctx context.Context, who *asker, task *appv1.Task) review {
			found := review{
				errors: slices.Concat(validation.Task(task), validation.DisabledTask(s.disabled)), warnings: validation.TaskWarnings(task),
				paused: task.Spec.Paused, objects: []resource.Object{resource.PlannedCronJob(task)},
			}
			present, known := s.presentDefaults(ctx, who, task.Namespace)
			size := present.Sizes.Resolve(task.Spec.Size)
			if known {
				found.pending = size.Undefined(present.Sizes, field.NewPath("spec", "size"))
			}
			if task.Spec.App != "" || tooMany(found.errors) { // The pod template of the App belongs to another resource.
				return found
			}
			job, wrong := resource.Task(task, nil, size)
			found.errors = append(found.errors, wrong...)
			found.workloads = []*resource.Workload{job.Workload}
			return found
		},
	})
}
