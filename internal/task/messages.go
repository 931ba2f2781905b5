package task

// Messages of conditions and events about one Task. Each message names the problem, the object, and the remedy.
const (
	messageAppMissing     = "waits for App %s in namespace %s, which does not exist or has no Deployment yet. Create the App, or change spec.app; a CronJob that exists stays as it is"
	messageNoRun          = "no run was due yet"
	messageNeverDue       = "the schedule never comes"
	messageSuspended      = "spec.suspended is true: no run starts"
	messageRunning        = "Job %s runs since %s UTC"
	messageRunningCause   = "Job %s runs, and its pod does not: %s"
	messageRunWithoutPod  = "Job %s has no pod after %s; kubectl describe job -n %s %s names the cause"
	messageSucceeded      = "Job %s has succeeded"
	messageRunDeleted     = "Job %s was deleted before it ended"
	messageRunSucceeded   = "the latest run has succeeded"
	messageRunFailed      = "Job %s failed: %s; kubectl logs -n %s job/%s has its output, if its pod is still there"
	messageRunDeadline    = "deadlineSeconds had passed before the command ended, or before its pod could start"
	messageRunCommand     = "the command ended with an error, as often as retries allows"
	messageRunMissed      = "no run has started since the one that was due at %s UTC; kubectl describe cronjob -n %s %s names the cause, unless a Job of another owner has the name of a run, %s-*: delete such a Job"
	messageTooManyRuns    = "CronJob %s has more than %d Jobs, so the state of its runs is not known. Delete Jobs that have ended, and see which client creates them"
	messageRecordTooLong  = "the spec is too long for an annotation; only its hash is recorded"
	messageCronJobMissing = "CronJob %s is not created yet"
)
