package view

import (
	"fmt"
	"strings"

	appv1 "huolala.cn/app-operator/api/v1"
)

// advice says what to do about a reason. Where fixing the spec helps, it says so, as the way depends on who applies it.
type advice struct {
	text string
	// spec is true if a change of the spec helps: a rollback does, too.
	spec bool
}

// advices are the answers to each reason that is no good news. A reason that is missing here fails a test.
var advices = map[string]advice{
	appv1.ReasonImagePullBackOff:         {"Fix spec.image, or give the pods access to its registry with spec.imagePullSecrets.", true},
	appv1.ReasonInvalidImageName:         {"Fix spec.image: it is not the name of an image.", true},
	appv1.ReasonCrashLoopBackOff:         {"Read the log of the container: kubectl logs --previous POD -c CONTAINER.", true},
	appv1.ReasonOOMKilled:                {"Raise resources.limits.memory, or choose a larger spec.size.", true},
	appv1.ReasonContainerConfigError:     {"Create the ConfigMap, Secret or key that the message names, or fix its name in the spec.", true},
	appv1.ReasonContainerError:           {"Fix the command, the mounts or the security context that the message names.", true},
	appv1.ReasonUnschedulable:            {"Request less, or add nodes that satisfy what the message names.", true},
	appv1.ReasonQuotaExceeded:            {"Ask for a larger quota of the namespace, or run fewer or smaller pods.", true},
	appv1.ReasonPodsRejected:             {"The API server rejects the pods. Fix what the message names, or have the policy changed.", true},
	appv1.ReasonProgressDeadlineExceeded: {"Look at the pods: kubectl describe pod POD. None of them says what is wrong.", true},
	appv1.ReasonResourceExists: {"Do what the message says. The object cannot be adopted: " +
		"rename this resource, or rename or delete the object.", false},
	appv1.ReasonDeploymentNotFound: {"Create the Deployment, fix spec.deploymentName, or state spec.template.", true},
	appv1.ReasonScaleConflict:      {"Let one of them scale the Deployment: delete the other, or name another Deployment.", true},
	appv1.ReasonImmutableField:     {"Restore the field that the message names, or delete the object so that it is recreated.", true},
	appv1.ReasonInvalid:            {"Fix the field that the message names. Until then, the last applied spec stays in force.", true},
	appv1.ReasonFieldConflict:      {"Stop the other writer that the message names, or remove the field from the spec.", true},
	appv1.ReasonNodePortTaken:      {"Choose another nodePort, or none.", true},
	appv1.ReasonVolumeResizeFailed: {"Restore the size of the storage, or resize the claims that the message names.", true},
	appv1.ReasonPasswordMismatch:   {"Restore the password that the database was started with.", true},
	appv1.ReasonPasswordLost:       {"Restore the Secret that the message names, or set spec.db.rootPassSecretRef. Last resort: delete the claims, which deletes the data.", false},
	appv1.ReasonSecretNotFound:     {"Create the Secret with the key that the message names.", false},
	appv1.ReasonForbidden:          {"Ask an administrator: the operator lacks a right, or a policy or quota is in the way. The message says which.", false},
	appv1.ReasonTooManyReferences:  {"Use fewer ConfigMaps and Secrets, or set spec.configRollout to Never.", true},
	appv1.ReasonReadFailed:         {"Nothing yet: it is tried again. If it persists, ask an administrator for the operator's rights.", false},
	appv1.ReasonApplyFailed:        {"Nothing yet: it is tried again. If it persists, see the operator's log.", false},
	appv1.ReasonKindMissing:        {"Install what the message names into the cluster, or remove the block from the spec.", true},
	appv1.ReasonNotAccepted:        {"Fix the HTTPRoute or the Gateway, as the message says.", true},
	appv1.ReasonNoController:       {"Check that the Gateway exists and that a controller serves its class.", true},
	appv1.ReasonNoAddress:          {"Check that a controller serves the class of the Ingress. Some controllers never write an address.", true},
	appv1.ReasonMetricsMissing:     {"Check the metrics server, and that the pods state requests.", true},
	appv1.ReasonAutoscalerExists:   {"Delete the other HorizontalPodAutoscaler, or remove spec.autoscaling.", true},
	appv1.ReasonTerminating:        {"Nothing: the namespace is being deleted.", false},
	appv1.ReasonHeld:               {"Once the spec is fixed, let it take effect again: kubectl happ unhold NAME, or remove the annotation " + appv1.AnnotationHold + ".", false},
	appv1.ReasonRolledBack: {"Change the spec; or try it once more: kubectl happ refresh NAME; or accept the earlier revision: kubectl happ hold NAME; " +
		"or remove spec.rollback.", false},
	appv1.ReasonRevisionNotFound:   {"Name another ReplicaSet in the annotation " + appv1.AnnotationHold + ", or remove it.", false},
	appv1.ReasonPaused:             {"Resume it: kubectl happ resume NAME.", false},
	appv1.ReasonProgressing:        {"Nothing yet. Follow it: kubectl happ wait NAME.", false},
	appv1.ReasonDependencyNotReady: {"Nothing here: an earlier tier is not up yet.", false},
	appv1.ReasonOverridden:         {"Nothing, if the policy that changes the objects is meant to.", false},
	appv1.ReasonTemplateKept:       {"Nothing. To see what the next change replaces: kubectl happ plan NAME --refresh.", false},
	appv1.ReasonAdoptionRestarts:   {"Do what the message says: the object cannot be taken over without a restart as it is.", true},
	appv1.ReasonReplicasIgnored:    {"Nothing: the autoscaler decides. Remove spec.replicas to make this clear.", false},
	appv1.ReasonAtMaximum:          {"Raise spec.autoscaling.maxReplicas if the pods are too slow.", true},
	appv1.ReasonPasswordInSpec:     {"Move the password to a Secret, and name that in spec.db.rootPassSecretRef.", true},
	appv1.ReasonConfigRollout:      {"Nothing: the pods are being replaced.", false},
}

// good are the reasons that ask for nothing.
var good = []string{
	appv1.ReasonReady, appv1.ReasonScaledToZero, appv1.ReasonSettled, appv1.ReasonSynced, appv1.ReasonPasswordInSecret,
	appv1.ReasonFollowed, appv1.ReasonNotStalled, appv1.ReasonApplied, appv1.ReasonAccepted, appv1.ReasonAutoscaling,
}

// adoptable reports whether the operator offers to adopt the objects that a message of the reason ResourceExists is about. Of an object
// that another owner controls, that is for pods of others, or that is retained for another resource, a message says that it "is" so.
func adoptable(message string) bool {
	return strings.Contains(message, "annotate this resource with "+appv1.AnnotationAdopt) &&
		!strings.Contains(message, " exists and is ") && !strings.Contains(message, "cannot be adopted")
}

// adoption is the advice about an object that can be adopted: without a restart, if the kind can do that.
func (r *Resource) adoption() string {
	if kind, ok := KindOf(r.Kind); ok && kind.Holds {
		return "Nothing controls the object. \"kubectl happ adopt NAME\" takes it over without a restart; " +
			"otherwise rename this resource, or delete the object."
	}
	return "Nothing controls the object. \"kubectl happ adopt NAME --restart\" takes it over and replaces its pods; " +
		"otherwise rename this resource, or delete the object."
}

// resumeRollouts is the command that resumes the rollouts of a Deployment whose name follows.
const resumeRollouts = "kubectl rollout resume deployment/"

// pausedRollouts returns the name of a Deployment whose rollouts are paused, empty if there is none. Where Deployments cannot be listed,
// the message of the condition names it.
func (s *Snapshot) pausedRollouts(message string) string {
	for _, d := range s.deployments() {
		if d.Spec.Paused {
			return d.Name
		}
	}
	if _, rest, found := strings.Cut(message, resumeRollouts); found && s.lacks(kindsDeployments) {
		name, _, _ := strings.Cut(rest, "\"")
		return name
	}
	return ""
}

// argument is how a user names a resource.
func argument(kind, name string) string {
	k, _ := KindOf(kind)
	return k.Argument(name)
}

// advise returns what to do about a reason with its message, a line each.
func (s *Snapshot) advise(reason, message string) []string {
	known, ok := advices[reason]
	if !ok {
		return []string{"See the message. This kubectl happ does not know the reason " + reason + "; a newer one may."}
	}
	paused := s.pausedRollouts(message)
	switch {
	case reason == appv1.ReasonResourceExists && adoptable(message):
		known.text = s.Resource.adoption()
	case reason == appv1.ReasonProgressing && paused != "":
		return []string{"Resume the rollouts: " + resumeRollouts + paused}
	}
	name := argument(s.Resource.Kind, s.Resource.ObjectMeta.Name)
	lines := []string{strings.ReplaceAll(known.text, "NAME", name)}
	if !known.spec {
		return lines
	}
	if paused != "" {
		lines = append(lines, "The rollouts are paused, and the pods stay as they are until you resume them: "+resumeRollouts+paused)
	}
	tool := s.Resource.GitOps()
	if tool != "" {
		lines = append(lines, fmt.Sprintf("Change it in Git: %s applies this %s, and restores what is changed here.", tool, s.Resource.Kind))
	}
	if back := s.serving(); back > 0 {
		command := fmt.Sprintf("kubectl happ rollback %s --to %d", name, back)
		if tool != "" {
			lines = append(lines, "Once it is suspended there: "+command+" --force")
		} else {
			lines = append(lines, "Or return to what serves: "+command)
		}
	}
	return lines
}

// serving returns the earlier revision whose pods serve, 0 if there is none.
func (s *Snapshot) serving() int64 {
	for _, d := range s.deployments() {
		if !controls(s.Resource.ObjectMeta.UID, d) {
			continue
		}
		for i, rs := range s.replicaSets(d.UID) {
			if i > 0 && countReady(s.podsOf(rs.UID)) > 0 && rs.Annotations[appv1.AnnotationLastAppliedSpec] != "" {
				return revisionOf(rs)
			}
		}
	}
	return 0
}
