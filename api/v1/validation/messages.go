package validation

// Errors and warnings. The path of the field precedes each message, unless the message names its object. For a missing field,
// some messages name only the expected content.

// Rules that many fields share.
const (
	messageMustNotBeEmpty             = "must not be empty"
	messageMustNotBeNegative          = "must not be negative"
	messageMustBeAboveZero            = "must be greater than 0"
	messageMustBeAtLeastOne           = "must be at least 1"
	messageMustBeWholeNumber          = "must be a whole number"
	messageMustBeInRange              = "must be from %d to %d"
	messageNoOuterWhiteSpace          = "must not begin or end with white space"
	messagePathMustBeRelative         = "must be a relative path; remove the leading '/'"
	messagePathMustBeAbsolute         = "must be an absolute path; add a leading '/'"
	messagePathMustNotContainDotDot   = "must not contain '..'"
	messageFileMustNotBeginWithDotDot = "must not begin with '..'"
	messageNotAvailableOnSystem       = "is not available with os.name %s"
)

// The last message of a list of errors or warnings that is cut.
const (
	messageMoreErrors   = "has more errors than the %d that are listed; correct these first"
	messageMoreWarnings = "spec: has more warnings than the %d that are listed"
)

// Replacements of values without a short form.
const (
	messageCountOfSources  = "%d sources"
	messageCountOfHandlers = "%d handlers"
	messageCountOfBytes    = "%d bytes"
	messageItsSource       = "its source"
	messageItsNames        = "its names"
)

// Pods.
const (
	messageDNSNoneNeedsNameServer        = "dnsPolicy None requires at least one name server"
	messageDNSSearchesTooLong            = "must have at most %d characters in total"
	messageActiveDeadlineOnlyForJobs     = "is valid only for pods that terminate, such as those of a Job"
	messageActiveDeadlineOfRuns          = "cannot be set in a patch; deadlineSeconds limits each run"
	messageNoEphemeralContainers         = "cannot be set in a pod template; use kubectl debug on a running pod"
	messageHostNamespaceNeedsHostUsers   = "must not be true while hostUsers is false"
	messageSharedProcessesExcludeHostPID = "must not be true if hostPID is true"
	messageHostnameOverrideUnavailable   = "is not available with setHostnameAsFQDN or hostNetwork"
)

// Containers.
const (
	messageContainerMustBeUnique       = "must be unique among all containers of the pod, including the main container"
	messageNameAndContainerNameDiffer  = "name and containerName are the same field; remove spec.name"
	messageImageRequired               = "the image that the container runs"
	messageOnlyForRunningContainers    = "is valid only for a container that keeps running; set its restartPolicy to Always, or remove it"
	messageInitContainerResizeRestarts = "must be NotRequired for an init container without restartPolicy Always"
	messageRestartRulesNeedPolicy      = "is required with restartPolicyRules"
	messageExitCodesRequired           = "the exit codes that the rule is for"
)

// Probes and actions.
const (
	messageProbeNeedsOneHandler          = "must have exactly one of exec, grpc, httpGet and tcpSocket"
	messageActionNeedsOneHandler         = "must have exactly one of exec, httpGet, sleep and tcpSocket"
	messageSuccessThresholdMustBeOne     = "must be 1; only a readiness probe accepts more"
	messageReadinessHasNoGracePeriod     = "must not be set for a readiness probe, which does not restart the container"
	messageSleepMustNotExceedGracePeriod = "must be from 0 to terminationGracePeriodSeconds, which is %d"
	messageStopSignalNeedsSystem         = "requires os.name; set spec.os.name in podTemplatePatch, or remove it"
	messageCommandRequired               = "the command to run"
	messagePortNameNotDeclared           = "is not the name of a port of this container, which declares %s; use the number, or name a port in containerPorts or in the container's ports"
	messageNoNamedPorts                  = "no port with a name"
	messageNoNUL                         = "must not contain the character NUL, with which no container starts; remove it"
)

// Resources of containers and pods.
const (
	messageResourceNameUnknown         = "must be cpu, memory, ephemeral-storage, hugepages-<size> or <domain>/<name>"
	messageResourceNameMalformed       = messageResourceNameUnknown + ": %s"
	messageResourceDomainInvalid       = messageResourceNameUnknown + "; the domain must not start with requests. and must stay valid with that prefix"
	messagePodResourceNameUnknown      = "must be cpu, memory or hugepages-<size>: a pod-level resource cannot be another"
	messageRequestMustNotExceedLimit   = "must not exceed the limit of %s"
	messageRequestMustEqualLimit       = "must equal the limit of %s for this resource"
	messageRequestNeedsEqualLimit      = "this resource requires a limit that equals the request"
	messageHugePagesNeedCPUOrMemory    = "huge pages also require a limit or a request for cpu or memory"
	messageHugePagesNameInvalid        = "must be hugepages-<size>, with the size of a page, like hugepages-2Mi"
	messageHugePagesMustBeWhole        = "must be a multiple of the page's size, %s"
	messageLimitMustNotExceedPod       = "must not exceed the limit of the pod, %s"
	messagePodMustHaveSumOfContainers  = "must not be less than the sum over the containers, %s"
	messageNoClaimsAtPodLevel          = "are not supported at pod level; set them for each container"
	messageResourceClaimMustExist      = "must be the name of one of the pod's resourceClaims"
	messageResourceClaimNeedsOneSource = "must have exactly one of resourceClaimName and resourceClaimTemplateName"
)

// Variables.
const (
	messageValueExcludesValueFrom    = "value and valueFrom are mutually exclusive; remove one"
	messageValueFromNeedsOneSource   = "must name exactly one source"
	messageEnvFromNeedsOneSource     = "must name exactly one of configMapRef and secretRef"
	messageConfigMapRequired         = "the name of a ConfigMap"
	messageSecretRequired            = "the name of a Secret"
	messageVariableFileRequired      = "the file in the volume"
	messageVariableFileNeedsEmptyDir = "must be an emptyDir: variables cannot be read from other volumes"
)

// Mounts of volumes, and devices.
const (
	messageVolumeMustExist                      = "must be the name of one of the volumes"
	messageMountPathRequired                    = "where the container sees the volume"
	messageSubPathExcludesSubPathExpr           = "subPath and subPathExpr are mutually exclusive; remove one"
	messageBidirectionalNeedsPrivileged         = "Bidirectional is valid only for privileged containers; set securityContext.privileged, or choose HostToContainer"
	messageRecursiveReadOnlyNeedsReadOnly       = "requires readOnly: true"
	messageRecursiveReadOnlyExcludesPropagation = "is valid only with mountPropagation None"
	messageDevicesNeedHostUsers                 = "is not available while hostUsers is false"
	messageDeviceMustBeClaim                    = "must be a volume of type persistentVolumeClaim or ephemeral"
	messageDevicePathRequired                   = "where the container sees the device"
	messageDevicePathMustNotBeMountPath         = "must not also be the mountPath of a volume"
)

// Volumes.
const (
	messageVolumeNeedsOneSource              = "must have exactly one source, such as emptyDir: {}"
	messageFileModeMustBeInRange             = "must be from 0 to 0777 (octal; 511 in JSON)"
	messageClaimTemplateRequired             = "the template of the claim"
	messageOnlyLabelsAndAnnotations          = "only labels and annotations may be set"
	messageVolumeSizeRequired                = "the size of the volume, above 0"
	messageAccessModeRequired                = "at least one access mode, such as ReadWriteOnce"
	messageReadWriteOncePodStandsAlone       = "ReadWriteOncePod cannot be combined with other modes; remove it or the others"
	messageDataSourceMustBeClaim             = "must be PersistentVolumeClaim if apiGroup is empty"
	messageDataSourceMustEqualRef            = "must equal dataSourceRef; remove one of them"
	messageDownwardFileNeedsOneSource        = "must have exactly one of fieldRef and resourceFieldRef"
	messageProjectionNeedsOneSource          = "must have exactly one source; use one item for each"
	messageISCSINameInvalid                  = "must be a name that begins with iqn., eui. or naa., like iqn.2001-04.com.example:storage.disk1"
	messageISCSIAuthNeedsSecret              = "is required with chapAuthDiscovery and chapAuthSession"
	messageISCSIInitiatorTooLong             = "requires a volume name and a targetPortal of less than %d characters in total, not %d"
	messageFibreChannelNeedsOneName          = "must have exactly one of targetWWNs and wwids"
	messageFibreChannelNeedsLun              = "is required with targetWWNs"
	messageFlockerNeedsOneDataset            = "must have exactly one of datasetName and datasetUUID"
	messageFlockerDatasetMustNotContainSlash = "must not contain '/'"
	messageQuobyteRegistryInvalid            = "must be host:port, or a comma-separated list of such"
	messageAzureDiskURIInvalid               = "must begin with %s for a disk of kind %s"
	messageFlexVolumeOptionReserved          = "must not be in the reserved domains kubernetes.io and k8s.io"
	messageCephMonitorsRequired              = "the addresses of the storage"
)

// Affinity, spread and tolerations.
const (
	messageNodeTermRequired                = "at least one term that selects nodes"
	messageNodeFieldNeedsOneName           = "must be the name of one node"
	messageInNeedsValues                   = "In and NotIn require at least one value"
	messageExistsHasNoValues               = "Exists and DoesNotExist do not accept values"
	messageGtAndLtNeedOneValue             = "Gt and Lt require exactly one value"
	messageLabelKeysNeedSelector           = "requires a labelSelector; add one"
	messageKeyMustNotBeInMismatchLabelKeys = "must not also be in mismatchLabelKeys"
	messageKeyMustNotBeInLabelSelector     = "must not also be in labelSelector"
	messageMinDomainsNeedsDoNotSchedule    = "is valid only with whenUnsatisfiable: DoNotSchedule"
	messageTolerationWithoutKeyNeedsExists = "must be Exists if key is empty, which matches every taint"
	messageTolerationExistsHasNoValue      = "must be empty for the operator Exists, which matches any value"
	messageTolerationSecondsNeedNoExecute  = "%d seconds are valid only with the effect NoExecute"
)

// Security.
const (
	messageRootExcludesNonRoot         = "is root, and runAsNonRoot is true for container %s, so the kubelet does not start it; set another user, or runAsNonRoot: false for that container"
	messageUnmaskedNeedsUserNamespace  = "requires hostUsers: false; set spec.hostUsers in podTemplatePatch, or choose Default"
	messagePrivilegedAllowsEscalation  = "must not be false if privileged is true"
	messageSysAdminAllowsEscalation    = "must not be false if the capability CAP_SYS_ADMIN is added"
	messageLocalhostNeedsProfile       = "is required with the type Localhost"
	messageProfileNeedsLocalhost       = "is valid only with the type Localhost"
	messageSysctlNameInvalid           = "must be the name of a sysctl, like kernel.shm_rmid_forced"
	messageSysctlExcludesHostNetwork   = "must not be set while hostNetwork is true"
	messageSysctlExcludesHostIPC       = "must not be set while hostIPC is true"
	messageCredentialSpecSizeInvalid   = "must have 1 byte to 64 KiB"
	messageWindowsUserInvalid          = `must be the name of a user of Windows, as user or domain\user`
	messageHostProcessMustEqualPod     = "must equal that of the pod"
	messageHostProcessMustBeOfAll      = "must be equal for all containers of the pod"
	messageHostProcessNeedsHostNetwork = "requires hostNetwork: true; set spec.hostNetwork in podTemplatePatch"
)

// Ports and Service.
const (
	messageHostPortMustEqualContainerPort   = "must equal containerPort or be omitted while hostNetwork is true"
	messageHostNetworkSharesPorts           = "is a port of another container already, and all containers share the ports of the node while hostNetwork is true; choose another"
	messagePortDeclaredByContainer          = "container %s declares this number or name already; choose another, or remove it"
	messageSourceRangesNeedLoadBalancer     = "is valid only with the type LoadBalancer; set that type, or remove it"
	messageSourceRangesKeyNeedsLoadBalancer = "is valid only with service.type LoadBalancer"
	messageAffinityConfigNeedsClientIP      = "is valid only with sessionAffinity ClientIP; set that, or remove it"
	messageTwoFamiliesNeedDualStack         = "two families require ipFamilyPolicy PreferDualStack or RequireDualStack; set one, or remove a family"
	messageTopologyModeMustEqualHints       = "must be the same as %s; remove that annotation"
)

// Rollouts.
const (
	messageRollingUpdateExcludesItsFields      = "rollingUpdate is mutually exclusive with maxSurge and maxUnavailable; remove rollingUpdate, or the other fields"
	messageSurgeAndUnavailableAreZero          = "must not be 0 together with maxSurge; raise one"
	messageProgressDeadlineMustExceedMinReady  = "must be greater than minReadySeconds, which is %d"
	messageMinReadyMustBeBelowProgressDeadline = "must be less than progressDeadlineSeconds, which defaults to %d"
	messageRollbackNeedsHistory                = "OnStall needs old ReplicaSets; set revisionHistoryLimit to at least 1, or remove rollback"
)

// Canaries.
const (
	messageCanaryNeedsRollingUpdate = "needs a rolling update, because old and new pods run side by side; write \"strategy: RollingUpdate\", or remove canary"
	messageCanaryNameTooLong        = "is too long for a canary, whose Deployment has the name and -canary in 63 characters; use a name of at most 56 characters, or remove canary"
	messageCanaryPodsInvalid        = "must be a number of at least 1, or a percentage from 1% to 100%; write \"pods: 1\""
	messageAutoNeedsAfter           = "Auto needs a time; write \"after: 10m\" next to it, or \"promote: Manual\""
	messageAfterNeedsAuto           = "is valid only with automatic promotion; write \"promote: Auto\" next to it, or remove after"
	messageAfterInvalid             = "must be a time from 1s to 168h, like 10m or 1h30m"
)

// Commands before a rollout.
const (
	messageRolloutCommandRequired = "is required; write the program and its arguments, like command: [/app/migrate]"
	messageDeadlineInvalid        = "must be from 1 to 86400 seconds"
	messageRetriesInvalid         = "must be from 0 to 10"
)

// Tasks.
const (
	messageTaskNameTooLong         = "must be at most 52 characters, because the names of the Jobs begin with it"
	messageTaskImageRequired       = "is required without app; set it, or the name of an App in app"
	messageTaskCommandRequired     = "is required with app, because the command of the App serves and never ends; set command, args, or another image"
	messageTaskFurtherContainer    = "must be empty, because a further container keeps a run from ending; write it in initContainers with \"restartPolicy: Always\""
	messageScheduleRequired        = "is required; write when the runs start, like \"0 5 * * *\""
	messageScheduleInvalid         = "is no schedule: %s; write five fields (minute, hour, day of the month, the month, day of the week), like \"0 5 * * *\", or @daily"
	messageScheduleHasTimeZone     = "must not name a time zone; set timeZone"
	messageScheduleNeverComes      = "never comes; no run starts"
	messageTimeZoneUnknown         = "is no time zone of the IANA database; write one like Asia/Shanghai or Etc/UTC"
	messageLabelSetOnJobs          = "is set by Kubernetes on the pods of each Job; remove it"
	messageStartingDeadlineInvalid = "must be from 10 to 604800 seconds"
	messageIntervalTooShort        = "must be @every 1m or longer; a command that runs more often is a server, such as an App"
	messageDeadlineWithinInterval  = "must be longer than the interval of @every, because no run would ever start; write the five fields of cron instead, or remove this field"
	messageTaskDeadlineInvalid     = "must be from 1 to 604800 seconds"
)

// Labels and annotations.
const (
	messageKeySetByOperator                   = "is set by the operator"
	messageKeySetByDeploymentController       = "is set by Kubernetes' Deployment controller"
	messageComponentLabelSetByOperator        = "is the tier's role, which the operator sets; remove it, or state it in podLabels"
	messageAnnotationOnlyForStaticPods        = "is reserved for static pods of the kubelet; remove it"
	messageDeletionCostMustBeWholeNumber      = "must be a whole number without a plus sign or leading zeros"
	messageTolerationsAnnotationMustBeJSON    = "must be tolerations in JSON; use spec.tolerations instead"
	messageAnnotationMustNameContainer        = "must name a container of the pod"
	messageNullDropped                        = "is null in the file and has no effect, as client-side apply drops it; apply the file with --server-side, or write {$patch: replace} as an item of a list"
	messageAnnotationMustEqualSecurityContext = "must equal securityContext; remove the annotation"
)

// Features, and the fields around the pods.
const (
	messageFeatureUnknown                     = "%q is not a feature; use some of %s"
	messageFeatureSwitchedOff                 = "is switched off on this cluster; remove it"
	messageKindSwitchedOff                    = "is switched off on this cluster; no Task is run"
	messageServiceAccountExcludesItsName      = "serviceAccount and serviceAccountName are mutually exclusive; remove one"
	messageServiceAccountReserved             = "each namespace has a ServiceAccount of this name, which Kubernetes creates and pods without a ServiceAccount of their own use; remove serviceAccount, or give the resource another name"
	messageServiceReserved                    = "is the Service of the API server in the namespace default, which Kubernetes keeps; choose another name"
	messageMinAvailableExcludesMaxUnavailable = "minAvailable and maxUnavailable are mutually exclusive; remove one"
)

// Ingress and HTTPRoute.
const (
	messageRouteNeedsPorts            = "requires ports, because it leads to the Service; add a port, or remove %s"
	messageRoutePortMustBeTCP         = "port %d is %s; set it to a TCP port"
	messageRoutePortNotFound          = "must be the name or the number of one of the TCP ports in spec.ports: %s"
	messageHostInvalid                = "must be a DNS name like shop.example.com or *.example.com, without scheme, port and path"
	messageHTTPPathMustBeginWithSlash = "must begin with /"
	messageHTTPPathMustNotContain     = "must not contain %s"
	messageHTTPPathMustNotEndWith     = "must not end with %s"
	messageHTTPPathCharactersInvalid  = "must consist of the characters of a URL's path; escape another one as % and two hexadecimal digits, and leave out the query"
	messageRouteNeedsParents          = "names no Gateway, and neither do the AppDefaults that count; name one. A resource that runs takes later AppDefaults with a new value of the annotation app.huolala.cn/refresh"
	messageParentMustBeUnique         = "is the same parent as parentRefs[%d]; name another listener in sectionName on each, or remove one"
)

// Scaling and metrics.
const (
	messageMaxReplicasMustNotBeBelowMin  = "must not be below minReplicas, which is %d"
	messageMetricsExcludeTargets         = "metrics and the two targets are mutually exclusive; remove one"
	messageUtilizationNeedsRequest       = "scaling by %[1]s utilization requires a %[1]s request; set resources.requests.%[1]s, or set size"
	messageMetricSourceOfOtherType       = "goes with type %s; remove it, or change type"
	messageMetricTypeNeedsSource         = "type %s needs it"
	messageMetricNeedsValueOrAverage     = "set either value or averageValue"
	messageMetricValueExcludesAverage    = "value and averageValue are mutually exclusive; remove one"
	messagePodsMetricNeedsAverage        = "a metric of pods is compared with an average"
	messageMetricResourceRequired        = "the resource, like cpu or memory"
	messageMetricNeedsUtilizationOrValue = "set either averageUtilization or averageValue"
	messageUtilizationExcludesValue      = "averageUtilization and averageValue are mutually exclusive; remove one"
	messageMetricNameRequired            = "say what is measured"
)

// NetworkPolicy.
const (
	messageEndPortNeedsPort          = "must be specified when endPort is specified"
	messageEndPortExcludesName       = "may not be specified when port is a name"
	messageEndPortMustNotBeBelowPort = "must be greater than or equal to port"
	messagePeerRequired              = "must specify a peer"
	messageIPBlockExcludesOthers     = "may not specify both ipBlock and another peer"
	messageCIDRInvalid               = "must be a valid CIDR, like 10.0.0.0/8"
	messageExceptMustBeWithinCIDR    = "must be a strict subset of cidr"
)

// CloudManager.
const (
	messageComponentNameTooLong             = "must be at most %d characters long"
	messageComponentsShareObject            = "would create object %q for two components; rename this one or %s"
	messageDatabaseVolumeReserved           = "is reserved for the volume of spec.db.statefulSet.storage; choose another name"
	messageDatabaseMountReserved            = "is the mount path of storage; choose another path, or change storage.mountPath"
	messageDatabasePasswordVariableReserved = "%s is set from the database's Secret; use spec.db.rootPassSecretRef"
	messageSourceRangesOnHeadless           = "would also be set on the headless Service, which has no load balancer; move it to service.annotations"
	messageDatabaseSecretReserved           = "is the name of the Secret that the operator creates for the database; remove rootPassSecretRef to use that Secret"
)

// UnitedDeployment: what else scales its Deployment.
const (
	messageScaledByOwner            = "Deployment %s is owned by %s %s, which sets its replicas; set replicas there, or change spec.deploymentName"
	messageScaledByUnitedDeployment = "UnitedDeployment %s is older and scales Deployment %s; delete one of the two UnitedDeployments, or change spec.deploymentName"
	messageScaledByAutoscaler       = "HorizontalPodAutoscaler %s scales Deployment %s; let the autoscaler target this UnitedDeployment, or delete the autoscaler or this UnitedDeployment"
)

// Warnings of the operator's annotations.
const (
	messageAdoptNeedsRestart     = `has no effect; a resource of this kind cannot adopt without a restart. Set it to "true" to take over the objects, which replaces the pods once`
	messageAdoptValueInvalid     = `has no effect; it must be "true", "false" or "without-restart"`
	messageOverridesValueInvalid = `has no effect; it must be "true" or "false"`
	messagePlanOnlyForDryRun     = "has an effect on a dry run that adds it, and none once it is stored; remove it"
	messageAnnotationUnknown     = "is not known to the operator and has no effect; check its name, or remove it"
	messageHoldNotAvailable      = "has no effect; a resource of this kind cannot be held. Remove it"
	messageHoldIsEmpty           = "has no effect; it must be the name of a ReplicaSet, or last-good"
	messageHoldNameInvalid       = "is not the name of a ReplicaSet: the operator does not apply the spec, and leaves the pods as they are. Set the name of a ReplicaSet or last-good, or remove the annotation"
	messageCanaryNotAvailable    = "has no effect; a resource of this kind has no canary. Remove it"
	messageCanaryUIDIsEmpty      = "has no effect; it must be the UID of the canary's Deployment, which status.canary.uid has"
	messageHoldLastGood          = "holds this resource at ReplicaSet %s (%s), which was the last one to be ready with its spec in force; changes of the spec take effect once you remove the annotation"
	messageHoldRunsNow           = "holds this resource at ReplicaSet %s (%s), the last version that was ready; its pods still run. If that is the version to leave, name an earlier ReplicaSet; changes of the spec take effect once you remove the annotation"
	messageHoldInForce           = "holds this resource at an earlier ReplicaSet, if there is one of this name; changes of the spec take effect once you remove the annotation"
)

// Warnings of the spec.
const (
	messageImageWithoutTag           = "%q has no tag, which means latest: nodes may run different versions, depending on when they pulled it. Set a version tag or a digest"
	messageImageTagMoves             = "%q is a moving tag: nodes may run different versions, depending on when they pulled it. Set a version tag or a digest"
	messageResourcesNotSet           = "are not set: pods are scheduled as if they used no resources, and are evicted first. Set requests, or set spec.size"
	messageCanaryCountsForMemory     = "has pods that count for the autoscaling by memory: while a canary runs, the autoscaler may add pods. Scale by CPU, or leave room in maxReplicas"
	messageCanaryIsLarge             = "is not less than the number of pods, so the change takes half of all requests or more at once. Set a smaller number"
	messageRolloutRemovesAllPods     = "is %s, so a rollout can remove all pods at once; set it to less than the number of pods"
	messagePortNeedsPrivilege        = "port %d is below %d: with securityProfile restricted, a process without root may not be allowed to listen on it. Use a higher port, or add the capability NET_BIND_SERVICE in securityContext"
	messageNodePortOutsideOfRange    = "%d is outside of %d-%d, the default range of the API server's --service-node-port-range. Use a port in the range, or remove it"
	messageMountPathRelative         = "is not absolute, so the kubelet puts / before it; write the path with /"
	messageMountPathIsRoot           = "is the root of the container's files, over which no runtime mounts a volume; choose a folder"
	messageMountPathHasColon         = "contains ':', with which some container runtimes do not start the container; choose a path without it"
	messageMountPathRepeated         = "is the same path as %s, so one volume hides the other; choose another path"
	messageThousandthsOfBytes        = "is %s, and m is a thousandth of a byte; write M or Mi for megabytes, like 100Mi"
	messageFewBytes                  = "is %s, a number of bytes with which nothing runs; add the unit, like Mi or Gi"
	messageManyCores                 = "is %s cores, more than any node has; write cores without a unit of bytes, like 2, or thousandths, like 500m"
	messagePriorityComputed          = "is computed from the PriorityClass, and pods with another value are rejected; remove it, and set spec.priorityClassName"
	messageOverheadComputed          = "is set from the RuntimeClass, and pods with another value are rejected; remove it, and set spec.runtimeClassName"
	messageServiceNeedsPorts         = "has no effect without ports, as there is no Service; add a port, or remove %s"
	messageNeedsExternalService      = "has no effect with the type ClusterIP; set type to NodePort or LoadBalancer, or remove it"
	messagePasswordInClearText       = "is in clear text: anyone who can read this CloudManager can read it. Move it to a Secret, and set spec.db.rootPassSecretRef to that Secret"
	messageNetworkRefused            = "%s: Kubernetes 1.36 and newer refuse a new NetworkPolicy with it, and no new pods start without one"
	messageIngressClassDiffers       = "differs from the annotation kubernetes.io/ingress.class, and the API server creates no Ingress with two classes; remove one of them"
	messageRouteToHeadlessService    = "leads to a headless Service, which some controllers do not support; remove service.clusterIP"
	messageBudgetAllowsNoEviction    = "is %s and the smallest number of pods is %d, so no pod can be evicted and drains of nodes wait; lower minAvailable, or run more pods"
	messageEgressWithoutDNS          = "does not allow port 53: the pods cannot resolve names. Allow UDP and TCP 53"
	messageIngressExcludesController = "allows no other namespace, but %s is set: its controller cannot reach the pods. Allow the namespace of the controller"
	messageIngressExcludesPrometheus = "allows no other namespace, but podMonitor is set: Prometheus cannot reach the pods. Allow the namespace of Prometheus"
	messagePathRepeated              = "is the same as %s with pathType %s; remove one"
)

// AppDefaults, and what a resource takes of them.
const (
	messageNoDefaultServiceName  = "is no default, because each App has a Service of its own; remove it"
	messageNoDefaultCustomSize   = "is no default: custom stands for the resources of one App; set resources, or the name of a size"
	messageSizeExcludesResources = "and resources are mutually exclusive; remove one"
	messageCustomNotDefined      = "stands for the resources that a resource states; choose another name"
	messageSizeNeedsAmounts      = "requests or limits"
	messageNoDefaultOfName       = "is no field of AppDefaults; choose of: %s"
	messageWaveSize              = "must be a number of at least 1, or a percentage from 1% to 100%; write \"size: 10%\""
	messageSizeNeedsWaves        = "is valid only with waves; write \"type: Waves\" next to it, or remove size"
	messageWaveSoak              = "must be a time from 0s to 168h, like 5m or 1h30m"
	messageSoakNeedsWaves        = "is valid only with waves; write \"type: Waves\" next to it, or remove soak"
)
