package resource

import (
	"cmp"
	"encoding/json"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	rules "huolala.cn/app-operator/api/v1/validation"
)

// KindTask is the kind Task.
var KindTask = Kind{
	Name: "Task", Plural: "tasks", ShortNames: []string{"htask"}, PodLabel: appv1.LabelTask, Scheduled: true,
	New: func() Object { return &appv1.Task{} }, NewList: func() runtime.Object { return &appv1.TaskList{} },
}

// defaultKeptJobs is how many Jobs of ended runs stay by default.
const defaultKeptJobs = 3

// Base is what a Task with an App inherits: the live pod template of the App's Deployment.
type Base struct {
	// Template is the pod template. It is not changed.
	Template *corev1.PodTemplateSpec
	// Main is the name of the main container, empty for the first one.
	Main string
	// Selector is the selector of the Deployment.
	Selector map[string]string
}

// ScheduledJob has the CronJob of a Task.
type ScheduledJob struct {
	CronJob *batchv1.CronJob
	// Workload has the pod template of the CronJob, its labels and its record. It has no objects.
	Workload *Workload
}

// MainImage returns the image of the main container of a CronJob, empty for a CronJob without containers.
func MainImage(job *batchv1.CronJob) string {
	containers := job.Spec.JobTemplate.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return ""
	}
	return containers[0].Image
}

// Task maps a Task to its CronJob. base is nil for a Task without an App. size is the size that the spec names, with its present amounts: an
// earlier one is not kept, as no pod restarts. The errors are about the podTemplatePatch, and the pod as a whole.
func Task(task *appv1.Task, base *Base, size ResolvedSize) (*ScheduledJob, field.ErrorList) {
	spec := task.Spec.Workload()
	meta := workloadMeta{
		name:      task.Name,
		namespace: task.Namespace,
		instance:  task.Name,
		component: "task",
		owner:     *metav1.NewControllerRef(task, appv1.GroupVersion.WithKind(KindTask.Name)),
		container: cmp.Or(spec.ContainerName, task.Name),
		selector:  map[string]string{appv1.LabelTask: task.Name},
		path:      field.NewPath("spec"),
	}
	template, errs := taskTemplate(&meta, &task.Spec, base, size)
	w := &Workload{
		Name: task.Name, Namespace: task.Namespace, Owner: meta.owner, Path: meta.path, Profile: spec.SecurityProfile,
		Annotations: spec.Annotations, Template: *template, container: meta.container,
	}
	w.setLabels(meta, spec, meta.selector)
	w.Labels = mergedMaps(w.Labels, meta.selector)
	recorded := task.Spec
	recorded.Paused = false // Pausing does not change the runs.
	w.setRecord(&recorded, func() json.RawMessage { return canonicalJSON(&recorded) }, BuildOptions{})
	delete(w.Record, appv1.AnnotationLastAppliedInputs)
	object := w.objectMeta()
	object.Annotations = mergedMaps(object.Annotations, w.Record)
	return &ScheduledJob{
		CronJob:  &batchv1.CronJob{TypeMeta: cronJobType, ObjectMeta: object, Spec: cronJobSpec(&task.Spec, w)},
		Workload: w,
	}, errs
}

// cronJobType is the type that a CronJob is applied with.
var cronJobType = metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob"}

// PlannedCronJob returns the CronJob of a Task without a spec, which may depend on the App of the Task.
func PlannedCronJob(task *appv1.Task) *batchv1.CronJob {
	return &batchv1.CronJob{
		TypeMeta: cronJobType,
		ObjectMeta: metav1.ObjectMeta{
			Name: task.Name, Namespace: task.Namespace, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(task, appv1.GroupVersion.WithKind(KindTask.Name))},
		},
	}
}

// cronJobSpec returns the spec of the CronJob of a Task.
func cronJobSpec(spec *appv1.TaskSpec, w *Workload) batchv1.CronJobSpec {
	seconds := func(n *int32) *int64 {
		if n == nil {
			return nil
		}
		return ptr.To(int64(*n))
	}
	return batchv1.CronJobSpec{
		Schedule:                   spec.Schedule,
		TimeZone:                   ptr.To(ptr.Deref(spec.TimeZone, rules.DefaultTimeZone)),
		ConcurrencyPolicy:          batchv1.ConcurrencyPolicy(cmp.Or(spec.Concurrency, appv1.ConcurrencyForbid)),
		StartingDeadlineSeconds:    seconds(spec.StartingDeadlineSeconds),
		Suspend:                    ptr.To(spec.Suspended),
		SuccessfulJobsHistoryLimit: ptr.To(ptr.Deref(spec.Keep.Succeeded, defaultKeptJobs)),
		FailedJobsHistoryLimit:     ptr.To(ptr.Deref(spec.Keep.Failed, defaultKeptJobs)),
		JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: w.Labels, Annotations: w.Annotations},
			Spec:       endingJob(w.Template, ptr.Deref(spec.Retries, 0), seconds(spec.DeadlineSeconds)),
		},
	}
}

// taskTemplate returns the pod template of a Task. It sets the name of the main container in meta. The pods have no label by which the
// selector of a Deployment or the tools find the pods of an App, unless podLabels states the label.
func taskTemplate(meta *workloadMeta, spec *appv1.TaskSpec, base *Base, size ResolvedSize) (*corev1.PodTemplateSpec, field.ErrorList) {
	fields := spec.Workload()
	_, own := buildPod(*meta, fields, meta.selector, BuildInputs{Rendering: RenderingLatest, Size: size})
	endPod(&own)
	template := &corev1.PodTemplateSpec{Spec: own}
	identity := mergedMaps(map[string]string{appv1.LabelComponent: meta.component, appv1.LabelManagedBy: appv1.ManagedBy},
		statedLabels(spec.PodLabels), meta.selector)
	if base != nil {
		template.Spec = inheritPod(base, &own, spec)
		template.Annotations = endingAnnotations(base.Template, cmp.Or(base.Main, base.Template.Spec.Containers[0].Name), &template.Spec)
		template.Labels = withoutSelectors(base.Template.Labels, base.Selector)
		meta.container = template.Spec.Containers[0].Name
	}
	template.Labels = mergedMaps(template.Labels, spec.PodLabels, identity)
	template.Annotations = mergedMaps(template.Annotations, spec.PodAnnotations)
	errs, usable := patchTemplate(template, fields, identity, *meta)
	restrictTemplate(template, spec.SecurityProfile)
	applyServerDefaults(&template.Spec)
	if usable {
		errs = append(errs, endingFaults(template, base, meta)...)
		if base != nil {
			errs = append(errs, rules.InheritedVolumes(fields, template.Spec.Volumes, meta.path)...)
		}
		errs = append(errs, rules.WholePod(fields, template, meta.container, meta.path)...)
	}
	return template, errs
}

// endingFaults returns an error for each part of a pod template that would keep a run from starting or ending, or have a Service lead to it.
func endingFaults(template *corev1.PodTemplateSpec, base *Base, meta *workloadMeta) field.ErrorList {
	at := meta.path.Child("podTemplatePatch")
	errs := rules.JobLabels(template.Labels, at.Child("metadata", "labels"))
	for i, c := range template.Spec.InitContainers {
		if slices.ContainsFunc(slices.Concat(template.Spec.Containers, template.Spec.InitContainers[:i]), func(o corev1.Container) bool { return o.Name == c.Name }) {
			errs = append(errs, field.Invalid(meta.path.Child("initContainers"), c.Name, messageContainerOfApp))
		}
	}
	for _, c := range template.Spec.Containers {
		if c.Name != meta.container {
			errs = append(errs, field.Forbidden(at.Child("spec", "containers").Key(c.Name), messageContainerNeverEnds))
		}
	}
	if !slices.ContainsFunc(template.Spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool { return gate.ConditionType == ReadinessGateRun }) {
		errs = append(errs, field.Forbidden(at.Child("spec", "readinessGates"), messageRunNeedsGate))
	}
	if base != nil && len(base.Selector) > 0 && selectsLabels(base.Selector, template.Labels) {
		errs = append(errs, field.Invalid(meta.path.Child("podLabels"), field.OmitValueType{}, messageLabelsOfApp))
	}
	return errs
}

// selectsLabels reports whether a selector selects labels.
func selectsLabels(selector, labels map[string]string) bool {
	for key, value := range selector {
		if is, ok := labels[key]; !ok || is != value {
			return false
		}
	}
	return true
}

// inheritPod returns the pod spec of a Task with an App: of the template of the App, what a pod that ends has of it, with the fields that
// the Task states. own is the pod spec of the stated fields.
func inheritPod(base *Base, own *corev1.PodSpec, spec *appv1.TaskSpec) corev1.PodSpec {
	pod := endingPod(&base.Template.Spec, base.Main)
	inheritMain(&pod.Containers[0], &own.Containers[0], spec)
	named := func(c corev1.Container) string { return c.Name }
	pod.InitContainers = overrideItems(pod.InitContainers, own.InitContainers, named)
	pod.Volumes = overrideItems(pod.Volumes, own.Volumes, func(v corev1.Volume) string { return v.Name })
	pod.ImagePullSecrets = overrideItems(pod.ImagePullSecrets, own.ImagePullSecrets, func(r corev1.LocalObjectReference) string { return r.Name })
	if own.ServiceAccountName != "" {
		pod.ServiceAccountName, pod.DeprecatedServiceAccount = own.ServiceAccountName, ""
	}
	if own.PriorityClassName != "" {
		pod.PriorityClassName = own.PriorityClassName
	}
	if own.DNSPolicy != "" {
		pod.DNSPolicy = own.DNSPolicy
	}
	if len(own.NodeSelector) > 0 {
		pod.NodeSelector = own.NodeSelector
	}
	if len(own.Tolerations) > 0 {
		pod.Tolerations = own.Tolerations
	}
	if len(own.HostAliases) > 0 {
		pod.HostAliases = own.HostAliases
	}
	setStated(&pod.AutomountServiceAccountToken, own.AutomountServiceAccountToken)
	setStated(&pod.SecurityContext, own.SecurityContext)
	setStated(&pod.Affinity, own.Affinity)
	setStated(&pod.TerminationGracePeriodSeconds, own.TerminationGracePeriodSeconds)
	setStated(&pod.RuntimeClassName, own.RuntimeClassName)
	setStated(&pod.DNSConfig, own.DNSConfig)
	return pod
}

// inheritMain states in the main container of an App what a Task states. With an image or a command, the command of the App does not count.
func inheritMain(main, own *corev1.Container, spec *appv1.TaskSpec) {
	if spec.ContainerName != "" {
		main.Name = spec.ContainerName
	}
	switch {
	case len(own.Command) > 0 || own.Image != "":
		main.Command, main.Args = own.Command, own.Args
	case len(own.Args) > 0:
		main.Args = own.Args
	}
	main.Image = cmp.Or(own.Image, main.Image)
	main.ImagePullPolicy = cmp.Or(spec.ImagePullPolicy, main.ImagePullPolicy)
	main.Env = overrideVariables(main.Env, own.Env)
	if len(own.EnvFrom) > 0 {
		main.EnvFrom = own.EnvFrom
	}
	if len(own.Resources.Requests)+len(own.Resources.Limits) > 0 {
		main.Resources = own.Resources
	}
	main.VolumeMounts = overrideItems(main.VolumeMounts, own.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath })
	setStated(&main.SecurityContext, own.SecurityContext)
}

// setStated sets a field to a stated value, unless the value is nil.
func setStated[T any](into **T, value *T) {
	if value != nil {
		*into = value
	}
}

// PastTask returns a Task with the spec of a record. It returns ErrNoSpec for a record with only a hash. The Task is as paused as the present
// one.
func PastTask(task *appv1.Task, record string) (*appv1.Task, error) {
	past := *task
	past.Spec = appv1.TaskSpec{}
	if err := DecodeSpec(record, &past.Spec); err != nil {
		return nil, err
	}
	past.Spec.Paused = task.Spec.Paused
	return &past, nil
}
