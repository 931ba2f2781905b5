package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
)

// advice is the remedy for a reason. Where a change of the spec helps, the text depends on who applies the spec.
type advice struct {
	// text has each command in braces. NAME is the resource, POD and CONTAINER are the pod and the container of the root cause, CRONJOB is
	// the CronJob of a Task, and JOB and FROM are the arguments that start its run by hand; expandAdvice replaces these words and adds the
	// namespace. No advice removes pods or endpoints that serve: it deletes no object, and changes no labels, selector or owner of another
	// owner's object.
	text string
	// spec is true if a change of the spec helps: a rollback does, too.
	spec bool
	// blind replaces text where the pods cannot be listed, and text has POD or CONTAINER.
	blind string
}

// advices are the answers to each reason that is no good news. A reason that is missing here fails a test.
var advices = map[string]advice{
	appv1.ReasonImagePullBackOff: {text: "Fix spec.image, or give the pods access to its registry with spec.imagePullSecrets.", spec: true},
	appv1.ReasonInvalidImageName: {text: "Fix spec.image: it is not the name of an image.", spec: true},
	appv1.ReasonCrashLoopBackOff: {
		text: "Read the log of the container: {kubectl logs POD -c CONTAINER --previous}.", spec: true,
		blind: "Read the log of the container that the message names. The pods cannot be listed.",
	},
	appv1.ReasonOOMKilled:            {text: "Raise resources.limits.memory, or choose a larger spec.size.", spec: true},
	appv1.ReasonContainerConfigError: {text: "Create the ConfigMap, Secret or key that the message names, or fix its name in the spec.", spec: true},
	appv1.ReasonContainerError:       {text: "Fix the command, the mounts or the security context that the message names.", spec: true},
	appv1.ReasonUnschedulable:        {text: "Request less, or add nodes that satisfy what the message names.", spec: true},
	appv1.ReasonQuotaExceeded:        {text: "Ask for a larger quota of the namespace, or run fewer or smaller pods. If the message says \"must specify\", the pods need spec.resources or spec.size.", spec: true},
	appv1.ReasonPodsRejected:         {text: "The API server rejects the pods. Fix what the message names, or have the policy changed.", spec: true},
	appv1.ReasonProgressDeadlineExceeded: {
		text: "Look at the pods, although no pod says what is wrong: {kubectl describe pod POD}.", spec: true,
		blind: "Look at the pods, although no pod says what is wrong.",
	},
	appv1.ReasonResourceExists:     {text: "Rename this resource, or have it name other objects. The object cannot be adopted, and stays as it is."},
	appv1.ReasonDeploymentNotFound: {text: "Create the Deployment, fix spec.deploymentName, or state spec.template.", spec: true},
	appv1.ReasonScaleConflict: {text: "Without spec.template, name another Deployment in spec.deploymentName. " +
		"With it, set spec.replicas to the number of pods that run, and remove the autoscaler of others.", spec: true},
	appv1.ReasonImmutableField:     {text: "Restore the field that the message names.", spec: true},
	appv1.ReasonInvalid:            {text: "Fix the field that the message names. Until then, the last applied spec stays in force.", spec: true},
	appv1.ReasonFieldConflict:      {text: "Stop the other writer that the message names, or, if the spec has the field, set its value there.", spec: true},
	appv1.ReasonNodePortTaken:      {text: "Choose another nodePort, or none.", spec: true},
	appv1.ReasonVolumeResizeFailed: {text: "Restore the size of the storage, or resize the claims that the message names.", spec: true},
	appv1.ReasonPasswordMismatch:   {text: "Restore the password that the database was started with.", spec: true},
	appv1.ReasonPasswordLost:       {text: "Restore the Secret that the message names, or set spec.db.rootPassSecretRef."},
	appv1.ReasonSecretNotFound:     {text: "Create the Secret with the key that the message names."},
	appv1.ReasonForbidden:          {text: "Ask an administrator: the operator lacks a right, or a policy or quota is in the way. The message says which."},
	appv1.ReasonTooManyReferences:  {text: "Use fewer ConfigMaps and Secrets, or set spec.configRollout to Never.", spec: true},
	appv1.ReasonReadFailed:         {text: "Nothing yet: it is tried again. If it persists, ask an administrator for the operator's rights."},
	appv1.ReasonApplyFailed:        {text: "Nothing yet: it is tried again. If it persists, see the operator's log."},
	appv1.ReasonKindMissing:        {text: "Install what the message names into the cluster, or remove the block from the spec.", spec: true},
	appv1.ReasonNotAccepted:        {text: "Fix the HTTPRoute or the Gateway, as the message says.", spec: true},
	appv1.ReasonNoController:       {text: "Check that the Gateway exists and that a controller serves its class.", spec: true},
	appv1.ReasonNoAddress:          {text: "Check that a controller serves the class of the Ingress. Some controllers never write an address.", spec: true},
	appv1.ReasonMetricsMissing:     {text: "Check the metrics server, and that the pods state requests.", spec: true},
	appv1.ReasonAutoscalerExists:   {text: "Remove spec.autoscaling: the other HorizontalPodAutoscaler goes on to decide the number of pods.", spec: true},
	appv1.ReasonTerminating:        {text: "Nothing: the namespace is being deleted."},
	appv1.ReasonHeld: {text: "Once the spec is fixed, let it take effect again: {kubectl happ unhold NAME}, or remove the annotation " +
		appv1.AnnotationHold + "."},
	appv1.ReasonRolledBack: {text: "Change the spec; or try it once more: {kubectl happ refresh NAME}; or accept the earlier revision: {kubectl happ hold NAME}; " +
		"or remove spec.rollback, or spec.canary if a canary was aborted."},
	appv1.ReasonCanary:               {text: "Look at the pods of the canary. Then roll the change out: {kubectl happ promote NAME}; or remove it: {kubectl happ abort NAME}."},
	appv1.ReasonBeforeRollout:        {text: "Nothing while the Job runs. Follow it: {kubectl happ wait NAME}; or read its output: {kubectl happ logs NAME}. If its pod has a problem, the message has the cause: fix it, or the spec."},
	appv1.ReasonBeforeRolloutFailed:  {text: "Read the output of the command: {kubectl happ logs NAME}. Then fix the spec; or run the command again: {kubectl happ refresh NAME}.", spec: true},
	appv1.ReasonBeforeRolloutStarted: {text: "Nothing: the rollout follows once the Job has succeeded."},
	appv1.ReasonRevisionNotFound:     {text: "Name another ReplicaSet in the annotation " + appv1.AnnotationHold + ", or remove it."},
	appv1.ReasonPaused:               {text: "Resume it: {kubectl happ resume NAME}."},
	appv1.ReasonProgressing:          {text: "Nothing yet. Follow it: {kubectl happ wait NAME}."},
	appv1.ReasonRolloutPaused:        {text: "Resume the rollouts with the command that the message names."},
	appv1.ReasonDependencyNotReady:   {text: "Nothing here: an earlier tier is not up yet."},
	appv1.ReasonOverridden:           {text: "Nothing, if the policy that changes the objects is meant to."},
	appv1.ReasonTemplateKept:         {text: "Nothing. To see what the next change replaces: {kubectl happ plan NAME --refresh}."},
	appv1.ReasonAdoptionRestarts: {text: "Have the spec ask for what the object has, or remove the annotation " + appv1.AnnotationAdopt +
		": the object stays as it is. Where it is a Service that selects other pods, name another one in spec.service.name.", spec: true},
	appv1.ReasonReplicasIgnored: {text: "Nothing: the autoscaler decides. Remove spec.replicas to make this clear."},
	appv1.ReasonAtMaximum:       {text: "Raise spec.autoscaling.maxReplicas if the pods are too slow.", spec: true},
	appv1.ReasonPasswordInSpec:  {text: "Move the password to a Secret, and name that in spec.db.rootPassSecretRef.", spec: true},
	appv1.ReasonCanaryStarted:   {text: "Look at the pods of the canary: {kubectl happ tree NAME}."},
	appv1.ReasonCanaryPromoted:  {text: "Nothing: the pods are being replaced."},
	appv1.ReasonCanaryAborted:   {text: "Change the spec; or try it once more: {kubectl happ refresh NAME}."},
	appv1.ReasonRunFailed: {
		text: "Read the output of the run: {kubectl happ logs NAME}. Then fix the spec, or its App; start a run by hand: {kubectl create job JOB FROM}.", spec: true,
	},
	appv1.ReasonRunMissed: {text: "Look at the events of its CronJob: {kubectl describe CRONJOB}. If runs are missed again and again, see " +
		"spec.startingDeadlineSeconds and spec.concurrency; start a run by hand: {kubectl create job JOB FROM}."},
	appv1.ReasonWaveStalled:   {text: "Look at the resources in status.failed of the AppDefaults, and correct the AppDefaults or these resources."},
	appv1.ReasonTooManyRuns:   {text: "See which client creates the Jobs: {kubectl happ tree NAME}; the limit count/jobs.batch of a ResourceQuota bounds them."},
	appv1.ReasonRunning:       {text: "Nothing while it runs. Follow it: {kubectl happ wait NAME}; or read its output: {kubectl happ logs NAME}. Why it has no pod is in the message."},
	appv1.ReasonSuspended:     {text: "Resume it: {kubectl happ resume NAME}."},
	appv1.ReasonConfigRollout: {text: "Nothing: the pods are being replaced."},
}

// good are the reasons that ask for nothing.
var good = []string{
	appv1.ReasonReady, appv1.ReasonScaledToZero, appv1.ReasonSettled, appv1.ReasonSynced, appv1.ReasonPasswordInSecret,
	appv1.ReasonNoRun, appv1.ReasonSucceeded, appv1.ReasonFollowed, appv1.ReasonNotStalled, appv1.ReasonApplied, appv1.ReasonAccepted, appv1.ReasonAutoscaling,
	appv1.ReasonRolledOut, appv1.ReasonNextChange, appv1.ReasonWave, appv1.ReasonSkipped,
}

// isAdoptable reports whether the operator offers to adopt the objects in a message of the reason ResourceExists. The message contains
// "exists and is" for an object that another owner controls, that is for pods of others, or that is retained for another resource.
func isAdoptable(message string) bool {
	return strings.Contains(message, appv1.AnnotationAdopt+"=") &&
		!strings.Contains(message, " exists and is ") && !strings.Contains(message, "cannot be adopted")
}

// The advice about an object that can be adopted: without a restart, if the kind can do that. Both commands show their plan, and ask. A
// resource that owns a workload object is not renamed: its pods would be deleted with it.
const (
	adviceAdopt        = "Nothing controls the object. {kubectl happ adopt NAME} takes it over without a restart, and refuses what would need one; otherwise "
	adviceAdoptRestart = "Nothing controls the object. See what a takeover would replace, and decide then: {kubectl happ adopt NAME --restart}; otherwise "
	adviceRename       = "rename this resource."
	adviceOtherName    = "have this resource name another object, or remove the block that asks for the object."
	adviceNotAdoptable = "Have this resource name other objects. The object cannot be adopted, and stays as it is."
)

// adviceNoApp is the advice about a Task whose App has no Deployment.
const adviceNoApp = "Check the App that spec.app names: {kubectl happ list}. The Task takes effect once the App has pods in force; the CronJob, if it exists, runs as before."

// adviceResume is the advice about a paused resource, next to that about anything else.
const adviceResume = "The %s is paused, and nothing is written until you resume it: %s"

// adoptionAdvice is the advice about an object that can be adopted.
func (s *Snapshot) adoptionAdvice() string {
	text := adviceAdoptRestart
	if kind, ok := KindOf(s.Resource.Kind); ok && (kind.Holds || kind.Scheduled) {
		text = adviceAdopt
	}
	if s.ownsWorkload() {
		return text + adviceOtherName
	}
	return text + adviceRename
}

// ownsWorkload reports whether the resource owns a Deployment, a StatefulSet or a CronJob, or these cannot be listed.
func (s *Snapshot) ownsWorkload() bool {
	by := s.Resource.ObjectMeta.UID
	return s.lacksKind(kindsDeployments) || s.lacksKind(kindsCronJobs) || s.cronJob() != nil ||
		slices.ContainsFunc(s.Deployments, func(d appsv1.Deployment) bool { return controlsObject(by, &d) }) ||
		slices.ContainsFunc(s.StatefulSets, func(set appsv1.StatefulSet) bool { return controlsObject(by, &set) })
}

// expandAdvice returns a text of the table with its commands complete, and false if a command needs a pod and the root cause has none.
func (s *Snapshot) expandAdvice(text string) (expanded string, complete bool) {
	pod, container := s.causePod()
	r := &s.Resource
	values := map[string]string{
		"NAME": argumentOf(r.Kind, r.ObjectMeta.Name), "POD": pod, "CONTAINER": container,
		"CRONJOB": cronJobOf + r.ObjectMeta.Name, "JOB": s.newJobName(), "FROM": "--from=" + cronJobOf + r.ObjectMeta.Name,
	}
	return expandCommands(text, r.ObjectMeta.Namespace, values)
}

// expandCommands returns a text of the table with the values of the words in its commands, and false if one of these values is empty.
func expandCommands(text, namespace string, values map[string]string) (expanded string, complete bool) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		command, after, _ := strings.Cut(rest, "}")
		words := strings.Fields(command)
		for i, word := range words {
			value, placeholder := values[word]
			if placeholder && value == "" {
				return "", false
			}
			if placeholder {
				words[i] = value
			}
		}
		b.WriteString(CommandLine(namespace, words[0], words[1:]...))
		text = after
	}
}

// cronJobOf is the argument for a CronJob's name.
const cronJobOf = "cronjob/"

// newJobName returns a name for the Job of a run that a user starts, which no run has.
func (s *Snapshot) newJobName() string {
	base := s.Resource.ObjectMeta.Name + "-again"
	for name, n := base, 2; ; name, n = base+"-"+strconv.Itoa(n), n+1 {
		if !slices.ContainsFunc(s.Jobs, func(job batchv1.Job) bool { return job.Name == name }) {
			return name
		}
	}
}

// causePod returns the first pod of the gravest cause with the container that the cause is about, or else the first pod that is not ready;
// empty names if there is none.
func (s *Snapshot) causePod() (pod, container string) {
	var ofSets, pods []corev1.Pod
	for _, set := range s.statefulSets() {
		ofSets = append(ofSets, s.podsOf(set.UID)...)
	}
	for _, stalled := range []bool{false, true} {
		pods = slices.Clone(ofSets)
		for _, d := range s.relatedDeployments() {
			pods = append(pods, health.RolloutPods(d, s.podsOfDeployment(d), stalled)...)
		}
		worst := health.Worst(pods, stalled)
		for i := range pods {
			if worst != (health.Cause{}) && health.Worst(pods[i:i+1], stalled) == worst {
				return pods[i].Name, worst.Container
			}
		}
	}
	pods = ofSets
	for _, d := range s.relatedDeployments() {
		pods = append(pods, s.podsOfDeployment(d)...)
	}
	for i := range pods {
		if !podReady(&pods[i]) {
			return pods[i].Name, mainContainer(&pods[i])
		}
	}
	return "", ""
}

// mainContainer returns the name of the first container of a pod.
func mainContainer(pod *corev1.Pod) string {
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	return pod.Spec.Containers[0].Name
}

// resumeRollouts is the program that resumes the rollouts of a Deployment, and deploymentOf the argument for a name.
const (
	resumeRollouts = "kubectl rollout resume"
	deploymentOf   = "deployment/"
)

// pausedRollouts returns the name of a Deployment whose rollouts are paused, empty if there is none or Deployments cannot be listed.
func (s *Snapshot) pausedRollouts() string {
	for _, d := range s.relatedDeployments() {
		if d.Spec.Paused {
			return d.Name
		}
	}
	return ""
}

// argumentOf is how a user names a resource.
func argumentOf(kind, name string) string {
	k, _ := KindOf(kind)
	return k.ArgumentOf(name)
}

// remediesFor returns the remedies for a reason with its message, a line each.
func (s *Snapshot) remediesFor(reason, message string) []string {
	known, ok := advices[reason]
	if !ok {
		return []string{"See the message. This kubectl happ does not know the reason " + reason + "; a newer one may."}
	}
	paused := s.pausedRollouts()
	resume := CommandLine(s.Resource.ObjectMeta.Namespace, resumeRollouts, deploymentOf+paused)
	switch {
	case reason == appv1.ReasonResourceExists && isAdoptable(message):
		known.text = s.adoptionAdvice()
	case reason == appv1.ReasonResourceExists && s.ownsWorkload():
		known.text = adviceNotAdoptable
	case reason == appv1.ReasonDependencyNotReady && s.Resource.Schedule != nil:
		known.text = adviceNoApp
	case (reason == appv1.ReasonProgressing || reason == appv1.ReasonRolloutPaused) && paused != "":
		return []string{"Resume the rollouts: " + resume}
	}
	text, complete := s.expandAdvice(known.text)
	if !complete {
		text, _ = s.expandAdvice(known.blind)
	}
	lines := []string{text}
	if s.Resource.Paused && reason != appv1.ReasonPaused && reason != appv1.ReasonSuspended {
		lines = append(lines, fmt.Sprintf(adviceResume, s.Resource.Kind, s.Resource.PluginCommand("resume")))
	}
	if !known.spec {
		return lines
	}
	if paused != "" {
		lines = append(lines, "The rollouts are paused, and the pods stay as they are until you resume them: "+resume)
	}
	tool := s.Resource.GitOps()
	if tool != "" {
		lines = append(lines, fmt.Sprintf("Change it in Git: %s applies this %s, and restores what is changed here.", tool, s.Resource.Kind))
	}
	if back, sameSpec := s.servingRevision(); back > 0 {
		to := []string{"--to", strconv.FormatInt(back, 10)}
		if kind, _ := KindOf(s.Resource.Kind); sameSpec && kind.Holds {
			lines = append(lines, "The spec is that of the pods that serve, so changed defaults may be the cause. Keep the pods that serve: "+s.Resource.PluginCommand("hold", to...))
		} else if tool != "" {
			lines = append(lines, "Once it is suspended there: "+s.Resource.PluginCommand("rollback", append(to, "--force")...))
		} else {
			lines = append(lines, "Or return to what serves: "+s.Resource.PluginCommand("rollback", to...))
		}
	}
	return lines
}

// servingRevision returns the earlier revision whose pods serve, 0 if there is none, and whether the latest revision has the same spec.
func (s *Snapshot) servingRevision() (revision int64, sameSpec bool) {
	for _, d := range s.relatedDeployments() {
		if !controlsObject(s.Resource.ObjectMeta.UID, d) {
			continue
		}
		all := s.replicaSets(d.UID)
		for i, rs := range all {
			if record := rs.Annotations[appv1.AnnotationLastAppliedSpec]; i > 0 && countReady(s.podsOf(rs.UID)) > 0 && record != "" {
				return revisionOf(rs), record == all[0].Annotations[appv1.AnnotationLastAppliedSpec]
			}
		}
	}
	return 0, false
}
