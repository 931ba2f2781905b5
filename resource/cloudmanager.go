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

// DataVolume is the name of the database's volume, and of the claim template for it.
const DataVolume = "datadir"

// The keys of the database's Secret.
const (
	SecretUsername = "username"
	SecretPassword = "password"
)

// Tier is the role of a component in a CloudManager. Objects have it in the label app.kubernetes.io/component.
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

// CloudManagerTier returns the workload that a tier of a CloudManager means, and what is wrong with its podTemplatePatch. The names
// of all components are stated.
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

// tierSpec is one component of a CloudManager: where its spec is, and what its role in it adds to that.
type tierSpec struct {
	role Tier
	spec *appv1.Component
	path *field.Path
	// envs come before those of the user, which can refer to them and override them.
	envs []corev1.EnvVar
	// port is the one that the component offers if the spec states none, 0 for none.
	port int32
	// claims are the volumes that each pod has of claims of its own.
	claims []string
}

// CloudManagerDatabase returns the workload that a CloudManager's database means, and what is wrong with its podTemplatePatch.
// The names of all components are stated.
func CloudManagerDatabase(cm *appv1.CloudManager, seen BuildOptions) (*Workload, field.ErrorList) {
	db := cm.Spec.DB.StatefulSet.DeepCopy()
	mountPath := db.Storage.MountPath
	if mountPath == "" {
		mountPath = "/var/lib/mysql"
	}
	db.VolumeMounts = append(db.VolumeMounts, corev1.VolumeMount{Name: DataVolume, MountPath: mountPath})
	w, errs := component(cm, tierSpec{
		role:   TierDatabase,
		spec:   &db.Component,
		path:   field.NewPath("spec", "db", "statefulSet"),
		port:   3306,
		claims: []string{DataVolume},
		// The image's own name for it, and the one by which images of MySQL, and older ones of MariaDB, know it.
		envs: []corev1.EnvVar{
			fromSecret("MARIADB_ROOT_PASSWORD", cm, SecretPassword),
			fromSecret("MYSQL_ROOT_PASSWORD", cm, SecretPassword),
		},
	}, seen)
	w.RetainedFor = KindCloudManager.Name + "." + cm.Name
	w.Retain = ptr.Deref(db.Storage.Retain, true)
	w.Claims = []corev1.PersistentVolumeClaim{claimTemplate(w, &db.Storage)}
	spec := &cm.Spec.DB.StatefulSet
	// The storage does not count: a volume that grows must not restart a pod.
	w.record(spec, identityOf(&spec.Component, componentWorkload), seen)
	return w, errs
}

// CloudManagerIdentity returns the workload that a CloudManager's identity tier means, and what is wrong with its
// podTemplatePatch. The names of all components are stated.
func CloudManagerIdentity(cm *appv1.CloudManager, seen BuildOptions) (*Workload, field.ErrorList) {
	spec := cm.Spec.Identity.Deployment.DeepCopy()
	if len(spec.Command) == 0 && len(spec.Args) == 0 && len(spec.Ports) == 0 {
		// An image that says nothing of what to do, such as busybox, would end at once.
		spec.Command = []string{"/bin/sh", "-c", "sleep 60m"}
		if seen.Inputs.Rendering != RenderingTutorial {
			// By way of a shell, which takes a signal at once where the first process of a container would ignore it.
			spec.Command = []string{"/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"}
		}
	}
	w, errs := component(cm, tierSpec{
		role: TierIdentity,
		spec: spec,
		path: field.NewPath("spec", "identity", "deployment"),
		envs: databaseEnvs(cm),
	}, seen)
	w.record(&cm.Spec.Identity.Deployment, identityOf(&cm.Spec.Identity.Deployment, componentWorkload), seen)
	return w, errs
}

// CloudManagerFront returns the workload that a CloudManager's front tier means, and what is wrong with its podTemplatePatch.
// The names of all components are stated.
func CloudManagerFront(cm *appv1.CloudManager, seen BuildOptions) (*Workload, field.ErrorList) {
	envs := databaseEnvs(cm)
	if identity := &cm.Spec.Identity.Deployment; len(identity.Ports) > 0 {
		envs = append(envs, address("IDENTITY", identity.ServiceName(identity.Name), cm.Namespace, identity.Ports[0].Port)...)
	}
	w, errs := component(cm, tierSpec{
		role: TierFront,
		spec: cm.Spec.Front.Deployment.DeepCopy(),
		path: field.NewPath("spec", "front", "deployment"),
		envs: envs,
		port: 80,
	}, seen)
	w.record(&cm.Spec.Front.Deployment, identityOf(&cm.Spec.Front.Deployment, componentWorkload), seen)
	return w, errs
}

func componentWorkload(c *appv1.Component) *appv1.WorkloadSpec { return &c.WorkloadSpec }

// component maps what all tiers share. It changes t.spec.
func component(cm *appv1.CloudManager, t tierSpec, seen BuildOptions) (*Workload, field.ErrorList) {
	if len(t.spec.Ports) == 0 && t.port != 0 {
		t.spec.Ports = []appv1.Port{{Port: t.port}}
	}
	stated := t.spec.Envs
	t.spec.Envs = slices.Concat(slices.DeleteFunc(t.envs, func(ours corev1.EnvVar) bool {
		return slices.ContainsFunc(stated, func(users corev1.EnvVar) bool { return users.Name == ours.Name })
	}), stated)
	return workload(workloadMeta{
		name:      t.spec.Name,
		namespace: cm.Namespace,
		instance:  cm.Name,
		component: string(t.role),
		owner:     *metav1.NewControllerRef(cm, appv1.GroupVersion.WithKind(KindCloudManager.Name)),
		container: t.spec.Name,
		// The component's name is part of it, so that its Service never leads to the pods of one by an earlier name.
		selector:    map[string]string{appv1.LabelCloudManager: cm.Name, appv1.LabelPart: t.spec.Name},
		path:        t.path,
		serviceType: corev1.ServiceTypeClusterIP,
		claims:      t.claims,
		// It tells by which tier an object of an earlier name is followed.
		ownsComponent: true,
	}, &t.spec.WorkloadSpec, seen)
}

// databaseEnvs tell a later tier where the database is, and how to get in.
func databaseEnvs(cm *appv1.CloudManager) []corev1.EnvVar {
	db, port := &cm.Spec.DB.StatefulSet, int32(3306)
	if len(db.Ports) > 0 {
		port = db.Ports[0].Port
	}
	return append(address("DB", db.ServiceName(db.Name), cm.Namespace, port),
		fromSecret("DB_USERNAME", cm, SecretUsername),
		fromSecret("DB_PASSWORD", cm, SecretPassword))
}

// address returns the variables that say where a Service is.
func address(prefix, name, namespace string, port int32) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: prefix + "_HOST", Value: name + "." + namespace + ".svc"},
		{Name: prefix + "_PORT", Value: strconv.Itoa(int(port))},
	}
}

// fromSecret returns a variable whose value is in the database's Secret.
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

// TierSpec returns the spec of a tier of a CloudManager. The names of all components are stated.
func TierSpec(cm *appv1.CloudManager, t Tier) Spec { return componentSpec{cm, t} }

func (s componentSpec) Workload() *appv1.WorkloadSpec { return &s.tier.Component(s.cm).WorkloadSpec }

func (s componentSpec) Serving() *appv1.ServingSpec { return nil }

// Validate validates all tiers: who needs the errors of several calls validation.CloudManager once.
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

// Changed reports a change of the database's storage in ScopeVolumes: it does not shape the pods.
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

// CloudManagerFromRecord returns a copy of a CloudManager in which the component of a tier, with its name, is the one of the
// record.
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
