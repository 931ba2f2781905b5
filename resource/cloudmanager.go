package resource

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
)

// KindCloudManager is the kind CloudManager.
var KindCloudManager = Kind{
	Name: "CloudManager", Plural: "cloudmanagers", ShortNames: []string{"cmgr"}, PodLabel: appv1.LabelCloudManager,
	New: func() Object { return &appv1.CloudManager{} }, NewList: func() runtime.Object { return &appv1.CloudManagerList{} },
}

// DataVolume is the name of the database's volume and of its claim template.
const DataVolume = "datadir"

// The keys of the database's Secret.
const (
	SecretUsername = "username"
	SecretPassword = "password"
)

// Tier is the role of a component in a CloudManager, the value of the label app.kubernetes.io/component of its objects.
type Tier string

// The tiers.
const (
	TierDatabase Tier = "db"
	TierIdentity Tier = "identity"
	TierFront    Tier = "front"
)

// Component returns the tier's component in a CloudManager.
func (t Tier) Component(cm *appv1.CloudManager) *appv1.Component {
	switch t {
	case TierDatabase:
		return &cm.Spec.DB.StatefulSet.Component
	case TierIdentity:
		return &cm.Spec.Identity.Deployment
	default:
		return &cm.Spec.Front.Deployment
	}
}

// CloudManagerTier maps a tier of a CloudManager to its workload. The errors are about its podTemplatePatch and ports. The spec
// must have the names of all components.
func CloudManagerTier(cm *appv1.CloudManager, t Tier, seen BuildOptions) (*Workload, field.ErrorList) {
	switch t {
	case TierDatabase:
		return CloudManagerDatabase(cm, seen)
	case TierIdentity:
		return CloudManagerIdentity(cm, seen)
	default:
		return CloudManagerFront(cm, seen)
	}
}

// tierSpec is one component of a CloudManager: its spec, and the settings of its role.
type tierSpec struct {
	role Tier
	spec *appv1.Component
	path *field.Path
	// envs are the operator's variables. They come before the user's variables, which can refer to them and override them.
	envs []corev1.EnvVar
	// port is the default port of the component, 0 for none.
	port int32
	// claims are the names of the volumes with a claim for each pod.
	claims []string
}

// CloudManagerDatabase is CloudManagerTier for the database.
func CloudManagerDatabase(cm *appv1.CloudManager, seen BuildOptions) (*Workload, field.ErrorList) {
	db := cm.Spec.DB.StatefulSet.DeepCopy()
	mountPath := db.Storage.MountPath
	if mountPath == "" {
		mountPath = "/var/lib/mysql"
	}
	db.VolumeMounts = append(db.VolumeMounts, corev1.VolumeMount{Name: DataVolume, MountPath: mountPath})
	w, errs := buildComponent(cm, tierSpec{
		role:   TierDatabase,
		spec:   &db.Component,
		path:   field.NewPath("spec", "db", "statefulSet"),
		port:   3306,
		claims: []string{DataVolume},
		// MariaDB reads the first variable; MySQL and older MariaDB images read the second.
		envs: []corev1.EnvVar{
			fromSecret("MARIADB_ROOT_PASSWORD", cm, SecretPassword),
			fromSecret("MYSQL_ROOT_PASSWORD", cm, SecretPassword),
		},
	}, seen)
	w.RetainedFor = KindCloudManager.Name + "." + cm.Name
	w.Retain = ptr.Deref(db.Storage.Retain, true)
	w.Claims = []corev1.PersistentVolumeClaim{claimTemplate(w, &db.Storage)}
	spec := &cm.Spec.DB.StatefulSet
	// The identity excludes the storage: growing a volume must not restart a pod.
	w.setRecord(spec, identityOf(&spec.Component, componentWorkload), seen)
	return w, errs
}

// CloudManagerIdentity is CloudManagerTier for the identity tier.
func CloudManagerIdentity(cm *appv1.CloudManager, seen BuildOptions) (*Workload, field.ErrorList) {
	spec := cm.Spec.Identity.Deployment.DeepCopy()
	if len(spec.Command) == 0 && len(spec.Args) == 0 && len(spec.Ports) == 0 {
		// The container of an image without a long-running command, such as busybox, would exit at once.
		spec.Command = []string{"/bin/sh", "-c", "sleep 60m"}
		if seen.Inputs.Rendering != RenderingTutorial {
			// The trap handles SIGTERM at once; a process with PID 1 ignores it by default.
			spec.Command = []string{"/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"}
		}
	}
	w, errs := buildComponent(cm, tierSpec{
		role: TierIdentity,
		spec: spec,
		path: field.NewPath("spec", "identity", "deployment"),
		envs: databaseEnvs(cm),
	}, seen)
	w.setRecord(&cm.Spec.Identity.Deployment, identityOf(&cm.Spec.Identity.Deployment, componentWorkload), seen)
	return w, errs
}

// CloudManagerFront is CloudManagerTier for the front tier.
func CloudManagerFront(cm *appv1.CloudManager, seen BuildOptions) (*Workload, field.ErrorList) {
	envs := databaseEnvs(cm)
	if identity := &cm.Spec.Identity.Deployment; len(identity.Ports) > 0 {
		envs = append(envs, addressVars("IDENTITY", identity.ServiceName(identity.Name), cm.Namespace, identity.Ports[0].Port)...)
	}
	w, errs := buildComponent(cm, tierSpec{
		role: TierFront,
		spec: cm.Spec.Front.Deployment.DeepCopy(),
		path: field.NewPath("spec", "front", "deployment"),
		envs: envs,
		port: 80,
	}, seen)
	w.setRecord(&cm.Spec.Front.Deployment, identityOf(&cm.Spec.Front.Deployment, componentWorkload), seen)
	return w, errs
}

func componentWorkload(c *appv1.Component) *appv1.WorkloadSpec { return &c.WorkloadSpec }

// buildComponent maps the common part of all tiers to a workload. It changes t.spec.
func buildComponent(cm *appv1.CloudManager, t tierSpec, seen BuildOptions) (*Workload, field.ErrorList) {
	if len(t.spec.Ports) == 0 && t.port != 0 {
		t.spec.Ports = []appv1.Port{{Port: t.port}}
	}
	stated := t.spec.Envs
	t.spec.Envs = slices.Concat(slices.DeleteFunc(t.envs, func(ours corev1.EnvVar) bool {
		return slices.ContainsFunc(stated, func(users corev1.EnvVar) bool { return users.Name == ours.Name })
	}), stated)
	return buildWorkload(workloadMeta{
		name:      t.spec.Name,
		namespace: cm.Namespace,
		instance:  cm.Name,
		component: string(t.role),
		owner:     *metav1.NewControllerRef(cm, appv1.GroupVersion.WithKind(KindCloudManager.Name)),
		container: t.spec.Name,
		// The selector has the component's name, so that the Service never selects pods of a previous name.
		selector:    map[string]string{appv1.LabelCloudManager: cm.Name, appv1.LabelPart: t.spec.Name},
		path:        t.path,
		serviceType: corev1.ServiceTypeClusterIP,
		claims:      t.claims,
		// The operator finds the tier's objects of a previous name by the label.
		ownsComponent: true,
	}, &t.spec.WorkloadSpec, seen)
}

// databaseEnvs returns the variables with the database's address and credentials, for the other tiers.
func databaseEnvs(cm *appv1.CloudManager) []corev1.EnvVar {
	db, port := &cm.Spec.DB.StatefulSet, int32(3306)
	if len(db.Ports) > 0 {
		port = db.Ports[0].Port
	}
	return append(addressVars("DB", db.ServiceName(db.Name), cm.Namespace, port),
		fromSecret("DB_USERNAME", cm, SecretUsername),
		fromSecret("DB_PASSWORD", cm, SecretPassword))
}

// addressVars returns the variables with the host and the port of a Service.
func addressVars(prefix, name, namespace string, port int32) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: prefix + "_HOST", Value: name + "." + namespace + ".svc"},
		{Name: prefix + "_PORT", Value: strconv.Itoa(int(port))},
	}
}

// fromSecret returns a variable with a value of the database's Secret.
func fromSecret(name string, cm *appv1.CloudManager, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: SecretName(cm.Spec.DB.StatefulSet.Name)},
		Key:                  key,
	}}}
}

// componentSpec is the Spec of a tier of a CloudManager.
type componentSpec struct {
	cm   *appv1.CloudManager
	tier Tier
}

// TierSpec returns the spec of a tier of a CloudManager. The spec must have the names of all components.
func TierSpec(cm *appv1.CloudManager, t Tier) Spec { return componentSpec{cm, t} }

func (s componentSpec) Workload() *appv1.WorkloadSpec { return &s.tier.Component(s.cm).WorkloadSpec }

func (s componentSpec) Serving() *appv1.ServingSpec { return nil }

func (s componentSpec) Release() *appv1.ReleaseSpec { return nil }

func (s componentSpec) Without() []string { return nil }

func (s componentSpec) WithDefaults(DefaultsRecord) Spec { return s }

// Validate validates all tiers and returns the errors of this tier. A caller that needs the errors of several tiers should call
// validation.CloudManager once.
func (s componentSpec) Validate() field.ErrorList {
	errs := validation.CloudManager(s.cm)
	switch s.tier {
	case TierDatabase:
		return errs.Database
	case TierIdentity:
		return errs.Identity
	default:
		return errs.Front
	}
}

func (s componentSpec) Build(seen BuildOptions) (*Workload, field.ErrorList) {
	return CloudManagerTier(s.cm, s.tier, seen)
}

func (s componentSpec) Past(record string) (Spec, error) {
	past, err := CloudManagerFromRecord(s.cm, s.tier, record)
	if err != nil {
		return nil, err
	}
	if is, want := s.tier.Component(past).Name, s.tier.Component(s.cm).Name; is != want {
		return nil, fmt.Errorf("the record is of component %q, not of %q", is, want)
	}
	return componentSpec{past, s.tier}, nil
}

// Changed compares the database's storage only in ScopeVolumes, as the storage does not shape the pods.
func (s componentSpec) Changed(record string, scope Scope) (bool, error) {
	if scope == ScopePods {
		return specChanged(s.tier.Component(s.cm), record, componentWorkload)
	}
	if s.tier != TierDatabase {
		return false, nil
	}
	var then appv1.Database
	switch err := DecodeSpec(record, &then); {
	case errors.Is(err, ErrNoSpec):
		return false, nil
	case err != nil:
		return false, err
	}
	return !equality.Semantic.DeepEqual(s.cm.Spec.DB.StatefulSet.Storage, then.Storage), nil
}

func (s componentSpec) Identity() string {
	return hashSpec(identityMeta(s.tier.Component(s.cm), componentWorkload))
}

// CloudManagerFromRecord returns a copy of a CloudManager with a tier's component, including its name, from a record.
func CloudManagerFromRecord(cm *appv1.CloudManager, t Tier, record string) (*appv1.CloudManager, error) {
	past := cm.DeepCopy()
	component := t.Component(past)
	var spec any = component
	if t == TierDatabase {
		past.Spec.DB.StatefulSet = appv1.Database{}
		spec = &past.Spec.DB.StatefulSet
	} else {
		*component = appv1.Component{}
	}
	if err := decodeWorkload(record, spec, &component.WorkloadSpec); err != nil {
		return nil, err
	}
	if component.Name == "" {
		return nil, errors.New("unreadable spec: no name")
	}
	return past, nil
}
