package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelTask names the Task that a CronJob, its Jobs and their pods belong to.
const LabelTask = "app.huolala.cn/task"

// MaxTaskName is the maximum length of the name of a Task, in bytes: a Job of its CronJob has the name and 11 further characters in 63.
const MaxTaskName = 52

func init() { register(&Task{}, &TaskList{}) }

// TaskSpec is what a Task runs, and when.
// +kubebuilder:validation:XValidation:rule="has(self.app) || has(self.image)",message="is required without app; set it, or the name of an App in app",fieldPath=".image"
// +kubebuilder:validation:XValidation:rule="!has(self.app) || has(self.image) || has(self.command) || has(self.args)",message="is required with app, because the command of the App serves and never ends; set command, args, or another image",fieldPath=".command"
// +kubebuilder:validation:XValidation:rule="!has(self.containers) || size(self.containers) == 0",message="must be empty, because a further container keeps a run from ending; write it in initContainers with \"restartPolicy: Always\"",fieldPath=".containers"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || self.size == 'custom' || !has(self.resources) || (!has(self.resources.requests) && !has(self.resources.limits))",message="a named size and resources are mutually exclusive; remove one, or set size to custom",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || self.size != 'custom' || (has(self.resources) && (has(self.resources.requests) || has(self.resources.limits)))",message="custom requires resources; set requests or limits, or choose a named size",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.dnsPolicy) || self.dnsPolicy != 'None' || (has(self.dnsConfig) && has(self.dnsConfig.nameservers) && size(self.dnsConfig.nameservers) > 0)",message="None requires dnsConfig.nameservers; add one, or choose another policy",fieldPath=".dnsPolicy"
type TaskSpec struct {
	// paused stops all writes to the CronJob while it is true. The status stays live, runs start by the schedule, and deletion works. To
	// stop the runs, set suspended. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`

	// app is the name of an App in the same namespace. The pods of a run have the image, the variables, the volumes, the sidecars, the
	// account, the security and the scheduling of the pods that the App has in force. A stated field of the Task takes
	// precedence: items of envs, volumes, volumeMounts, initContainers and imagePullSecrets replace items with the same name or
	// path, podLabels and podAnnotations replace values with the same key, and each other field replaces the whole field of the App. With command or image, neither
	// the command nor the args of the App are used. A change of the App is for the next run, never for a run that has started; a canary of
	// the App changes nothing. Defaults to none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of an App: lower-case letters, digits and '-', start with a letter and not end with '-'"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	App string `json:"app,omitempty"`

	// image is the container image to run, as "[registry/]repository[:tag][@digest]". Required without app. Defaults to the image that the
	// App has in force.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:space:]]')",message="must not contain white space; write an image as [registry/]repository[:tag][@digest]"
	// +kubebuilder:validation:XValidation:rule="self.matches('[[:space:]]') || self.matches('^(([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|[[][a-fA-F0-9:]+[]])(:[0-9]+)?/)?[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([-+._][a-zA-Z][a-zA-Z0-9]*)*:[a-fA-F0-9]{32,})?$')",message="must be an image; write it as [registry/]repository[:tag][@digest], the repository in lower case"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Image string `json:"image,omitempty"`

	// imagePullPolicy is when the kubelet pulls the image: Always, IfNotPresent or Never. Defaults to the policy of the App; without app,
	// to IfNotPresent.
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:imagePullPolicy"}
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	PodFields `json:",inline"`

	// schedule is when the runs start, as the five fields of cron ("0 5 * * *": minute, hour, day of the month, number or name of the month, day of the
	// week), or as @hourly, @daily, @weekly, @monthly, @yearly or "@every 1h30m". Required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Schedule string `json:"schedule,omitempty"`

	// timeZone is the time zone of the schedule, a name of the IANA database like "Asia/Shanghai". Defaults to "Etc/UTC".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	TimeZone *string `json:"timeZone,omitempty"`

	// concurrency is the rule for a run that is due while an earlier one runs: Forbid starts it once the earlier one has ended, if
	// startingDeadlineSeconds allows it, Allow starts it as well, and Replace ends the earlier one. Defaults to Forbid.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Forbid","urn:alm:descriptor:com.tectonic.ui:select:Allow","urn:alm:descriptor:com.tectonic.ui:select:Replace"}
	Concurrency TaskConcurrency `json:"concurrency,omitempty"`

	// deadlineSeconds is the time that a run has, with all retries, before it counts as failed, in seconds, up to a week.
	// Defaults to none.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	DeadlineSeconds *int32 `json:"deadlineSeconds,omitempty"`

	// retries is how often a command that fails is started again before the run counts as failed. Defaults to 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	Retries *int32 `json:"retries,omitempty"`

	// startingDeadlineSeconds is how late a run may start, in seconds; later it is missed. A run can be late because an earlier one
	// runs, because the Task was suspended, or because the cluster was down. Defaults to none: the latest run that was due starts, however late.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=604800
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	StartingDeadlineSeconds *int32 `json:"startingDeadlineSeconds,omitempty"`

	// keep is how many Jobs of ended runs stay, with their pods and logs.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Keep TaskKeep `json:"keep,omitzero"`

	// suspended starts no run while it is true. A run that has started continues. Afterwards, the latest run that was due meanwhile starts, unless it
	// is too late by startingDeadlineSeconds. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Suspended bool `json:"suspended,omitempty"`

	// labels are further labels of the CronJob and its Jobs, though not of the pods. app.kubernetes.io/name, instance and component take the
	// place of the operator's. The operator's others are refused: app.kubernetes.io/managed-by, and all of app.huolala.cn.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are annotations of the CronJob and its Jobs, though not of the pods. The keys of app.huolala.cn are the operator's.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Annotations map[string]string `json:"annotations,omitempty"`
}

// TaskConcurrency is the rule for a run that is due while an earlier one runs.
//
// +kubebuilder:validation:Enum=Forbid;Allow;Replace
type TaskConcurrency string

// The values of TaskConcurrency.
const (
	// ConcurrencyForbid starts a run that is due while an earlier one runs once that has ended.
	ConcurrencyForbid TaskConcurrency = "Forbid"
	// ConcurrencyAllow starts a run whatever else runs.
	ConcurrencyAllow TaskConcurrency = "Allow"
	// ConcurrencyReplace ends the earlier run.
	ConcurrencyReplace TaskConcurrency = "Replace"
)

// TaskKeep is how many Jobs of ended runs stay.
type TaskKeep struct {
	// succeeded is how many Jobs stay that have succeeded. Defaults to 3.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Succeeded *int32 `json:"succeeded,omitempty"`

	// failed is how many Jobs stay that have failed. Defaults to 3.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Failed *int32 `json:"failed,omitempty"`
}

// TaskStatus is what the runs of a Task are doing.
type TaskStatus struct {
	CommonStatus `json:",inline"`

	// lastRun is the latest run that has started, by the schedule or by hand.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	LastRun *TaskRun `json:"lastRun,omitempty"`

	// nextRun is when the next run is due; absent while the Task is suspended, and for a schedule without a time.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	NextRun *metav1.Time `json:"nextRun,omitempty"`

	// active is the number of runs that have started and not ended.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"}
	Active int32 `json:"active,omitempty"`

	// image is the image of the main container of the next run.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Image string `json:"image,omitempty"`

	// size is the named size in use, each resource as request/limit, like "small (cpu 100m/500m, memory 128Mi/256Mi)"; empty without
	// one.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Size string `json:"size,omitempty"`
}

// TaskRun is a run of a Task.
type TaskRun struct {
	// job is the name of its Job, which may be deleted already.
	// +required
	// +kubebuilder:validation:MinLength=1
	Job string `json:"job,omitempty"`

	// started is when the Job was created.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`

	// finished is when the run has ended, or when its Job was found to be deleted; absent while it runs.
	// +optional
	Finished *metav1.Time `json:"finished,omitempty"`

	// result is Running, Succeeded, Failed, or Unknown where the Job was deleted before it ended.
	// +optional
	Result TaskResult `json:"result,omitempty"`
}

// TaskResult is the result of a run.
//
// +kubebuilder:validation:Enum=Running;Succeeded;Failed;Unknown
type TaskResult string

// The values of TaskResult.
const (
	// TaskRunning is the result of a run that has not ended.
	TaskRunning TaskResult = "Running"
	// TaskSucceeded is the result of a run whose command has ended without an error.
	TaskSucceeded TaskResult = "Succeeded"
	// TaskFailed is the result of a run whose command has failed with all retries, or has exceeded its deadline.
	TaskFailed TaskResult = "Failed"
	// TaskUnknown is the result of a run whose Job was deleted before it ended.
	TaskUnknown TaskResult = "Unknown"
)

// Task runs a command on a schedule, as a CronJob with the Task's name. Deleting the Task deletes the CronJob with its Jobs.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=htask,categories=all;app-operator
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`,description="When runs start, in the five fields of cron"
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastRun.started`,description="Time since the latest run has started"
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=`.status.lastRun.result`,description="The result of the latest run"
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextRun`,description="When the next run is due"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="What the Task is doing, in one word"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the Task was created"
// +kubebuilder:printcolumn:name="App",type=string,priority=1,JSONPath=`.spec.app`,description="The App whose pods the runs are built from"
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.status.image`,description="The image of the next run"
// +kubebuilder:printcolumn:name="Applied",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Applied")].reason`,description="Whether the spec is in force, and what is not as the spec says"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is missing for the Task to be ready"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || (size(self.metadata.name) <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,message="metadata.name must be at most 52 lower-case letters, digits and '-', and start with a letter: the names of the Jobs begin with it"
// +operator-sdk:csv:customresourcedefinitions:displayName="Task",order=5,resources={{CronJob,v1},{Job,v1},{Pod,v1},{Event,v1}}
type Task struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is what all objects of Kubernetes have: name, namespace, labels and the like.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what should run, and when.
	// +required
	Spec TaskSpec `json:"spec,omitzero"`

	// status is what the runs are doing, written by the operator. Until the operator has looked, its observedGeneration is -1.
	// +default={"observedGeneration": -1}
	// +optional
	Status TaskStatus `json:"status,omitzero"`
}

// TaskList is a list of Tasks.
//
// +kubebuilder:object:root=true
type TaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Task `json:"items"`
}

// Workload returns the fields of the Task that a workload has, too, as the spec of a workload. Callers must not change them.
func (s *TaskSpec) Workload() *WorkloadSpec {
	return &WorkloadSpec{
		Image: s.Image, ImagePullPolicy: s.ImagePullPolicy, PodFields: s.PodFields, Labels: s.Labels, Annotations: s.Annotations,
	}
}

// CommonStatus returns the part of the status that all kinds share.
func (t *Task) CommonStatus() *CommonStatus { return &t.Status.CommonStatus }
