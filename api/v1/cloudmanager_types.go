package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelCloudManager names the CloudManager that an object or a pod belongs to. Together with LabelPart it is the selector of a
// component's workload and Services.
const LabelCloudManager = "app.huolala.cn/cloudmanager"

func init() { register(&CloudManager{}, &CloudManagerList{}) }

// CloudManagerSpec is what a CloudManager should run.
// +kubebuilder:validation:XValidation:rule="!has(self.identity.deployment.name) || !has(self.db.statefulSet.name) || !(self.identity.deployment.name in [self.db.statefulSet.name, self.db.statefulSet.name + '-headless']) || (oldSelf.hasValue() && has(oldSelf.value().identity.deployment.name) && has(oldSelf.value().db.statefulSet.name) && self.identity.deployment.name == oldSelf.value().identity.deployment.name && self.db.statefulSet.name == oldSelf.value().db.statefulSet.name)",optionalOldSelf=true,fieldPath=".identity.deployment.name",message="must differ from db.statefulSet.name and from that name with the suffix -headless; choose another name"
// +kubebuilder:validation:XValidation:rule="!has(self.front.deployment.name) || !has(self.db.statefulSet.name) || !(self.front.deployment.name in [self.db.statefulSet.name, self.db.statefulSet.name + '-headless']) || (oldSelf.hasValue() && has(oldSelf.value().front.deployment.name) && has(oldSelf.value().db.statefulSet.name) && self.front.deployment.name == oldSelf.value().front.deployment.name && self.db.statefulSet.name == oldSelf.value().db.statefulSet.name)",optionalOldSelf=true,fieldPath=".front.deployment.name",message="must differ from db.statefulSet.name and from that name with the suffix -headless; choose another name"
// +kubebuilder:validation:XValidation:rule="!has(self.front.deployment.name) || !has(self.identity.deployment.name) || self.front.deployment.name != self.identity.deployment.name || (oldSelf.hasValue() && has(oldSelf.value().front.deployment.name) && has(oldSelf.value().identity.deployment.name) && self.front.deployment.name == oldSelf.value().front.deployment.name && self.identity.deployment.name == oldSelf.value().identity.deployment.name)",optionalOldSelf=true,fieldPath=".front.deployment.name",message="must differ from identity.deployment.name; choose another name"
type CloudManagerSpec struct {
	// paused stops all writes to the child objects while it is true. The status stays live, and deletion works. Defaults to
	// false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`

	// front is the tier that users see. It is made once identity is up.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:fieldGroup:front"}
	Front Tier `json:"front,omitzero"`

	// identity is the tier between front and database. It is made once the database is up. Its fields are those of front.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:fieldGroup:identity"}
	Identity Tier `json:"identity,omitzero"`

	// db is the database, which is made first. Its statefulSet has the fields of front.deployment, and storage.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:fieldGroup:db"}
	DB DatabaseTier `json:"db,omitzero"`
}

// Tier is a tier that keeps no data.
type Tier struct {
	// deployment is what the tier's Deployment runs.
	// +required
	Deployment Component `json:"deployment,omitzero"`
}

// Component is one workload of a CloudManager.
type Component struct {
	// name is that of the component's objects and of its main container. Defaults to the CloudManager's name with "-front",
	// "-identity" or "-db" appended. If you change the name, the operator creates a new component, and removes the old one once the
	// new one is up. The name of a database has at most 52 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits and '-', start with a letter and not end with '-': it is also the name of the Service"
	// +optional
	Name string `json:"name,omitempty"`

	WorkloadSpec `json:",inline"`
}

// DatabaseTier is the tier that keeps the data.
// +kubebuilder:validation:XValidation:rule="!has(self.rootPass) || !has(self.rootPassSecretRef)",message="rootPass and rootPassSecretRef are mutually exclusive; remove one"
type DatabaseTier struct {
	// statefulSet is what the database's StatefulSet runs.
	// +required
	StatefulSet Database `json:"statefulSet,omitzero"`

	// rootPass is the root password of the database, in clear text: anyone who can read this resource can read it. Prefer
	// rootPassSecretRef. Without either, the operator creates a strong password in the Secret "<name>auth". The database
	// reads the password only when it first starts on an empty volume, so you cannot change the password here afterwards.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	RootPass string `json:"rootPass,omitempty"`

	// rootPassSecretRef names the Secret that has the root password.
	// +optional
	RootPassSecretRef *SecretKeyRef `json:"rootPassSecretRef,omitempty"`
}

// Database is the workload that keeps the data.
// +kubebuilder:validation:XValidation:rule="!has(self.name) || size(self.name) <= 52 || (oldSelf.hasValue() && has(oldSelf.value().name) && oldSelf.value().name == self.name)",optionalOldSelf=true,fieldPath=".name",message="must be at most 52 characters long, because Kubernetes appends a hash to it in a label"
// +kubebuilder:validation:XValidation:rule="(has(self.name) ? self.name : '/') != (has(oldSelf.name) ? oldSelf.name : '/') || (has(self.storage.class) == has(oldSelf.storage.class) && (!has(self.storage.class) || self.storage.class == oldSelf.storage.class))",fieldPath=".storage.class",message="cannot be changed on existing volumes; restore the previous value. A database with another name can have another class, but starts empty"
// +kubebuilder:validation:XValidation:rule="(has(self.name) ? self.name : '/') != (has(oldSelf.name) ? oldSelf.name : '/') || !has(oldSelf.storage.accessModes) || !has(self.storage.accessModes) || self.storage.accessModes == oldSelf.storage.accessModes",fieldPath=".storage.accessModes",message="cannot be changed on existing volumes; restore the previous value. A database with another name can have other access modes, but starts empty"
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy == 'RollingUpdate'",message="the pods of a database are replaced one by one; remove strategy",fieldPath=".strategy"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) && !has(self.maxSurge) && !has(self.maxUnavailable)",message="the pods of a database are replaced one by one; remove rollingUpdate, maxSurge and maxUnavailable",fieldPath=".rollingUpdate"
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadlineSeconds)",message="a StatefulSet has no progress deadline; remove progressDeadlineSeconds",fieldPath=".progressDeadlineSeconds"
type Database struct {
	Component `json:",inline"`

	// storage is where the data is kept: one volume for each pod.
	// +required
	Storage Storage `json:"storage"`
}

// Storage is the volume of a database's pod.
type Storage struct {
	// class is the StorageClass of the volumes. It can be set only until the database is made; "" stands for volumes that
	// are created by hand. Defaults to the cluster's.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +optional
	Class *string `json:"class,omitempty"`

	// accessModes states what can mount a volume: ReadWriteOnce (the pods of one node), ReadWriteOncePod (one pod) or
	// ReadWriteMany. It can be set only until the database is made. Defaults to ReadWriteOnce.
	// +default="ReadWriteOnce"
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	// +optional
	AccessModes corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`

	// size is how large each volume is, like 20Gi. It can grow, where the class allows for that, and never shrink. Required.
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$') || quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0, like 20Gi"
	// +required
	Size resource.Quantity `json:"size"`

	// mountPath is where the main container sees its volume. Defaults to /var/lib/mysql.
	// +default="/var/lib/mysql"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[^:]*$')",message="must be an absolute path without ':'"
	// +optional
	MountPath string `json:"mountPath,omitempty"`

	// retain says whether the operator keeps volumes and password when you delete this resource or rename the database. A new
	// CloudManager with the same name uses them again. Defaults to true.
	// +default=true
	// +optional
	Retain *bool `json:"retain,omitempty"`
}

// SecretKeyRef names a value in a Secret of the same namespace.
type SecretKeyRef struct {
	// name of the Secret. Required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +required
	Name string `json:"name,omitempty"`

	// key of the value in the Secret. Defaults to password.
	// +default="password"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, '-', '_' and '.'"
	// +optional
	Key string `json:"key,omitempty"`
}

// Phase is how far a CloudManager has come, in one word.
type Phase string

// The phases.
const (
	// PhasePending: nothing of it runs yet.
	PhasePending Phase = "Pending"
	// PhaseDatabase: the database is on its way.
	PhaseDatabase Phase = "Database"
	// PhaseIdentity: the database is up, identity is on its way.
	PhaseIdentity Phase = "Identity"
	// PhaseFront: database and identity are up, front is on its way.
	PhaseFront Phase = "Front"
	// PhaseReady: all tiers are up.
	PhaseReady Phase = "Ready"
	// PhaseDegraded: all tiers were up, and one no longer is.
	PhaseDegraded Phase = "Degraded"
)

// CloudManagerStatus is what a CloudManager's tiers are doing.
type CloudManagerStatus struct {
	CommonStatus `json:",inline"`

	// phase is Pending, Database, Identity or Front, by the tier that starts; Ready once all tiers are up; and Degraded if
	// a tier was up and is not any more. A tier is up while more than half of its wanted pods are ready.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Phase Phase `json:"phase,omitempty"`

	// ready is the number of tiers that are up, like "3/3".
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Ready string `json:"ready,omitempty"`

	// front is how that tier is doing.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Front TierStatus `json:"front,omitzero"`

	// identity is how that tier is doing.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Identity TierStatus `json:"identity,omitzero"`

	// db is how the database is doing.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	DB TierStatus `json:"db,omitzero"`
}

// TierStatus is what the pods of one tier are doing.
type TierStatus struct {
	// name is that of the tier's workload.
	// +optional
	Name string `json:"name,omitempty"`

	// ready is the number of ready pods out of the wanted ones, like "1/1".
	// +optional
	Ready string `json:"ready,omitempty"`

	// endpoint is where the tier's Service answers inside the cluster, as "name.namespace.svc:port"; empty without one.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// rendering is the number of the pod template's rendering in use: the way in which this operator turns a spec into a
	// pod template.
	// +optional
	Rendering int32 `json:"rendering,omitempty"`

	// latestRendering is set while this operator knows a newer rendering than the one in use. It is taken with the tier's
	// next change, or when the annotation app.huolala.cn/refresh is set to a new value; never by itself.
	// +optional
	LatestRendering int32 `json:"latestRendering,omitempty"`

	// size is the named size in use, with what it stands for.
	// +optional
	Size string `json:"size,omitempty"`

	// latestSize is set while the definition of the size differs from the one in use. It takes effect as latestRendering does.
	// +optional
	LatestSize string `json:"latestSize,omitempty"`
}

// CloudManager runs an application of three tiers: a database with its volumes and its password, and two Deployments, which
// are made one after the other as the tier before is up. Deleting the CloudManager deletes all but volumes and password.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cmgr,categories=app-operator
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Tiers that are up"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`,description="What the CloudManager is doing, in one word"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the CloudManager was created"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="How the tier is doing that needs attention first"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",optionalOldSelf=true,message="metadata.name must be at most 63 characters long: it is the value of a label of every object"
// +kubebuilder:validation:XValidation:rule="has(self.spec.db.statefulSet.name) || (oldSelf.hasValue() && !has(oldSelf.value().spec.db.statefulSet.name)) || (size(self.metadata.name) <= 49 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,fieldPath=".spec.db.statefulSet.name",message="must be set: metadata.name-db is a valid default only if metadata.name has at most 49 lower-case letters, digits and '-', and starts with a letter"
// +kubebuilder:validation:XValidation:rule="has(self.spec.identity.deployment.name) || (oldSelf.hasValue() && !has(oldSelf.value().spec.identity.deployment.name)) || (size(self.metadata.name) <= 54 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,fieldPath=".spec.identity.deployment.name",message="must be set: metadata.name-identity is a valid default only if metadata.name has at most 54 lower-case letters, digits and '-', and starts with a letter"
// +kubebuilder:validation:XValidation:rule="has(self.spec.front.deployment.name) || (oldSelf.hasValue() && !has(oldSelf.value().spec.front.deployment.name)) || (size(self.metadata.name) <= 57 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,fieldPath=".spec.front.deployment.name",message="must be set: metadata.name-front is a valid default only if metadata.name has at most 57 lower-case letters, digits and '-', and starts with a letter"
// +operator-sdk:csv:customresourcedefinitions:displayName="CloudManager",order=4,resources={{StatefulSet,v1},{Deployment,v1},{Service,v1},{Secret,v1},{PersistentVolumeClaim,v1},{Pod,v1},{Event,v1}}
type CloudManager struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is what all objects of Kubernetes have: name, namespace, labels and the like.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what should run.
	// +required
	Spec CloudManagerSpec `json:"spec,omitzero"`

	// status is what runs, written by the operator. Until the operator has looked, its observedGeneration is -1.
	// +default={"observedGeneration": -1}
	// +optional
	Status CloudManagerStatus `json:"status,omitzero"`
}

// CloudManagerList is a list of CloudManagers.
//
// +kubebuilder:object:root=true
type CloudManagerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CloudManager `json:"items"`
}

// CommonStatus returns the part of the status that all kinds share.
func (c *CloudManager) CommonStatus() *CommonStatus { return &c.Status.CommonStatus }

// DefaultNames states the names of the components that the spec leaves out.
func (c *CloudManager) DefaultNames() {
	for name, suffix := range map[*string]string{
		&c.Spec.Front.Deployment.Name:    "-front",
		&c.Spec.Identity.Deployment.Name: "-identity",
		&c.Spec.DB.StatefulSet.Name:      "-db",
	} {
		if *name == "" {
			*name = c.Name + suffix
		}
	}
}
