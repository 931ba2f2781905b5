package health

// AdviceStalled ends the message of a rollout that makes no progress.
const AdviceStalled = ". Earlier pods, if any, keep running. Fix the cause, or change the spec to start the rollout again"

// The texts of conditions and events on pods and rollouts. The name of the workload object or of the container precedes each of them.
const (
	messageImagePull       = "image %q" + cannotBePulled + "%s"
	messageImageName       = "image %q is not a valid name"
	messageExitsEarly      = "exits soon after each start; see its log"
	messageExitCode        = "exits with code %d; see its log"
	messageOutOfMemory     = "was killed because it used more memory than its limit; raise resources.limits.memory"
	messageNotCreated      = "cannot be created: %s"
	messageNotStarted      = "cannot be started: %s"
	messageScaledToZero    = "scaled to 0 replicas, no pod is running"
	messageToBeRemoved     = "%s of %d to be removed"
	messageAvailable       = "%s available"
	messageProgress        = "%d of %s updated, %d available"
	messageOldPods         = ", %d old to be removed"
	messageRolloutsPaused  = "; its rollouts are paused; resume them with \"kubectl rollout resume deployment/%s -n %s\""
	messageNotObserved     = "waiting for its controller to observe the latest change"
	messageNoProgress      = noProgress + "%d s"
	messageNotFinished     = "the rollout has not finished%s"
	messagePodsRejected    = "pods cannot be created: %s"
	messagePodsNotYetThere = ", %d not created yet; if this persists, see \"kubectl describe statefulset/%s -n %s\""
)

const (
	// cannotBePulled precedes the error of an image pull.
	cannotBePulled = " cannot be pulled"
	// noProgress begins what follows the cause of a rollout that has not finished in time.
	noProgress = "; no progress for "
)

// messageJobSuspended is the text of conditions on a suspended Job.
const messageJobSuspended = "Job %s is suspended, and has not started; a queue resumes it, or: kubectl patch job -n %s %s --type=merge -p '{\"spec\":{\"suspend\":false}}'"

// The texts of conditions on auxiliary objects.
const (
	messageIngressNoAddress  = "Ingress %s has no address yet. Some controllers never write one; otherwise, check that a controller serves its class"
	messageIngressAddress    = "Ingress %s has the address %s"
	messageAutoscalerStopped = "spec.replicas is 0, which stops the application. " +
		"To start the application with autoscaling.minReplicas, remove spec.replicas or set another value"
	messageAutoscalerWaits   = "Waiting for the controller of HorizontalPodAutoscaler %s"
	messageAutoscalerAtMost  = "HorizontalPodAutoscaler %s would scale further than autoscaling.maxReplicas; raise it if the pods are too slow"
	messageAutoscalerDecides = "HorizontalPodAutoscaler %s decides the number of pods"
	messageAutoscalerFails   = "HorizontalPodAutoscaler %s: %s"
	messageRouteAccepted     = "HTTPRoute %s is accepted"
	messageRouteNotAccepted  = "HTTPRoute %s is not accepted by %s: %s"
	messageRouteNoController = "HTTPRoute %s: no controller has answered for %s yet. Check that this parent exists and that a controller serves its class"
	messageServiceNoAddress  = "Service %s is waiting for a load balancer address"
	messageServiceAvailable  = "Service %s is available"
)
