package validation

import (
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// maxDatabaseName is how long a StatefulSet's name may be: its controller puts a hash behind it, into a label
// (kubernetes/kubernetes#64023).
const maxDatabaseName = 52

// maxComponentName is how long the name of a Service may be.
const maxComponentName = 63

// CloudManagerErrors are the errors of a CloudManager, by component.
type CloudManagerErrors struct {
	Database, Identity, Front field.ErrorList
}

// CloudManager validates the spec of a CloudManager beyond the schema. The spec must have the names of all components.
func CloudManager(cm *appv1.CloudManager) CloudManagerErrors {
	spec := field.NewPath("spec")
	db, identity, front := &cm.Spec.DB.StatefulSet, &cm.Spec.Identity.Deployment, &cm.Spec.Front.Deployment
	at := spec.Child("db", "statefulSet")
	errs := CloudManagerErrors{
		Database: slices.Concat(workload(&db.WorkloadSpec, kindDefaults{container: db.Name, volumes: []string{"datadir"}, endless: true, ownsComponent: true}, at), database(db, at), rootPass(&cm.Spec.DB, db.Name, spec.Child("db"))),
		Identity: workload(&identity.WorkloadSpec, kindDefaults{container: identity.Name, ownsComponent: true}, spec.Child("identity", "deployment")),
		Front:    workload(&front.WorkloadSpec, kindDefaults{container: front.Name, ownsComponent: true}, spec.Child("front", "deployment")),
	}

	named := func(component string, most int, stated *appv1.WorkloadSpec, of *field.ErrorList, at *field.Path, objects ...string) []componentName {
		names := []componentName{{component, at.Child("name"), most, append([]string{component}, objects...), of}}
		if service := stated.Service.Name; service != "" && service != component {
			names = append(names, componentName{service, at.Child("service", "name"), maxComponentName, []string{service}, of})
		}
		return names
	}
	uniqueNames(slices.Concat(
		named(db.Name, maxDatabaseName, &db.WorkloadSpec, &errs.Database, at, db.Name+"-headless"),
		named(identity.Name, maxComponentName, &identity.WorkloadSpec, &errs.Identity, spec.Child("identity", "deployment")),
		named(front.Name, maxComponentName, &front.WorkloadSpec, &errs.Front, spec.Child("front", "deployment")),
	))
	return errs
}

// componentName is a name that must be unique among the components: of a component, or of its Service.
type componentName struct {
	name string
	at   *field.Path
	// most is how long the name may be, and objects are the names of the objects that follow from it.
	most    int
	objects []string
	// errs are the errors of the component.
	errs *field.ErrorList
}

// uniqueNames adds the errors of names that are too long or not unique. Both components get the error: the spec does not determine the owner of the object.
func uniqueNames(names []componentName) {
	valid := slices.DeleteFunc(slices.Clone(names), func(n componentName) bool {
		if len(n.name) <= n.most {
			return false
		}
		*n.errs = append(*n.errs, field.Invalid(n.at, n.name, fmt.Sprintf(messageComponentNameTooLong, n.most)))
		return true
	})
	for i := range valid {
		n := &valid[i]
		if object, other := n.shared(valid[:i], valid[i+1:]); other != nil {
			*n.errs = append(*n.errs, field.Invalid(n.at, n.name, fmt.Sprintf(messageComponentsShareObject, object, other)))
		}
	}
}

// shared returns the first object of a name that another name has, too, and the path of that; nil if there is none. Of the names of one component, the later one is
// wrong.
func (n *componentName) shared(before, after []componentName) (object string, other *field.Path) {
	after = slices.DeleteFunc(slices.Clone(after), func(later componentName) bool { return later.errs == n.errs })
	for _, object := range n.objects {
		for _, other := range slices.Concat(before, after) {
			if slices.Contains(other.objects, object) {
				return object, other.at
			}
		}
	}
	return "", nil
}

// database checks what the operator adds to a database's pods: its volume, and the password.
func database(db *appv1.Database, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range db.Volumes {
		if full(errs) {
			break
		}
		if db.Volumes[i].Name == "datadir" {
			errs = append(errs, field.Invalid(at.Child("volumes").Index(i).Child("name"), "datadir", messageDatabaseVolumeReserved))
		}
	}
	for i := range db.VolumeMounts {
		if full(errs) {
			break
		}
		if mount := db.VolumeMounts[i].MountPath; path.Clean(mount) == path.Clean(db.Storage.MountPath) {
			errs = append(errs, field.Invalid(at.Child("volumeMounts").Index(i).Child("mountPath"), mount, messageDatabaseMountReserved))
		}
	}
	for i := range db.Envs {
		if full(errs) {
			break
		}
		if name := db.Envs[i].Name; name == "MARIADB_ROOT_PASSWORD" || name == "MYSQL_ROOT_PASSWORD" {
			errs = append(errs, field.Forbidden(at.Child("envs").Index(i), fmt.Sprintf(messageDatabasePasswordVariableReserved, name)))
		}
	}
	if class := ptr.Deref(db.Storage.Class, ""); class != "" {
		errs = append(errs, subdomain(class, at.Child("storage", "class"))...)
	}
	if _, stated := db.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]; stated && db.Service.Type == corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(at.Child("annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey),
			messageSourceRangesOnHeadless))
	}
	return collected(errs)
}

// rootPass checks that a container can have the password, and that the password is not to be read from the Secret that it is written to.
func rootPass(db *appv1.DatabaseTier, name string, at *field.Path) field.ErrorList {
	if errs := withoutNUL(at.Child("rootPass"), db.RootPass); len(errs) > 0 {
		return errs
	}
	if ref := db.RootPassSecretRef; ref != nil && ref.Name == name+"auth" {
		return field.ErrorList{field.Invalid(at.Child("rootPassSecretRef", "name"), ref.Name, messageDatabaseSecretReserved)}
	}
	return nil
}

// CloudManagerWarnings is AppWarnings for a CloudManager.
func CloudManagerWarnings(cm *appv1.CloudManager) []string {
	spec := field.NewPath("spec")
	tier := func(w *appv1.WorkloadSpec, path *field.Path) []string {
		return append(nullWarnings(cm, w.PodTemplatePatch, path.Child("podTemplatePatch")), plainWarnings(w, w.Replicas, corev1.ServiceTypeClusterIP, path)...)
	}
	said := slices.Concat(
		AnnotationWarnings(cm),
		tier(&cm.Spec.Front.Deployment.WorkloadSpec, spec.Child("front", "deployment")),
		tier(&cm.Spec.Identity.Deployment.WorkloadSpec, spec.Child("identity", "deployment")),
		tier(&cm.Spec.DB.StatefulSet.WorkloadSpec, spec.Child("db", "statefulSet")),
	)
	said = append(said, bytesWarning(cm.Spec.DB.StatefulSet.Storage.Size, spec.Child("db", "statefulSet", "storage", "size"))...)
	if cm.Spec.DB.RootPass != "" {
		said = append(said, warning(spec.Child("db", "rootPass"), messagePasswordInClearText))
	}
	return said
}
