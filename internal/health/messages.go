package health

// What conditions and events say of pods and rollouts. The name of the workload object or of the container stands before it.
const (
	messageImagePull       = "image %q cannot be pulled%s"
	messageImageName       = "image %q is not a valid name"
	messageExitsEarly      = "exits soon after each start; see its log"
	messageExitCode        = "exits with code %d; see its log"
	messageOutOfMemory     = "was killed because it used more memory than its limit; raise resources.limits.memory"
	messageNotCreated      = "cannot be created: %s"
	messageNotStarted      = "cannot be started: %s"
	messageScaledToZero    = "%s: scaled to 0 replicas, no pod is running"
	messageToBeRemoved     = "%s: %s of %d to be removed"
	messageAvailable       = "%s: %s available"
	messageProgress        = "%s: %d of %s updated, %d available"
	messageOldPods         = ", %d old to be removed"
	messageRolloutsPaused  = "; its rollouts are paused; resume them with \"kubectl rollout resume deployment/%s\""
	messageNotObserved     = "%s: waiting for its controller to observe the latest change"
	messageNoProgress      = "; no progress for %d s. Earlier pods keep running. Fix the cause, or change the spec to start the rollout again"
	messagePodsNotYetThere = ", %d not created yet; if this persists, see \"kubectl describe statefulset/%s\""
)
