package validation

import (
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// checkVolumes checks that each volume has a name that a pod takes, and exactly one source. The API server makes an emptyDir of
// a volume without any: that is refused here, for a source that was forgotten would lose the data.
func checkVolumes(list []corev1.Volume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.Set[string]{}
	for i := range list {
		if full(errs) {
			break
		}
		v, at := &list[i], at.Index(i)
		errs = append(errs, faults(at.Child("name"), v.Name, validation.IsDNS1123Label(v.Name))...)
		if names.Has(v.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), v.Name))
		}
		names.Insert(v.Name)
		if n := set(v.VolumeSource); n != 1 {
			errs = append(errs, field.Invalid(at, fmt.Sprintf(messageCountOfSources, n), messageVolumeNeedsOneSource))
			continue
		}
		errs = append(errs, volumeSource(v, at)...)
	}
	return errs
}

// volumeSource checks that a volume has exactly one valid source.
func volumeSource(v *corev1.Volume, at *field.Path) field.ErrorList {
	switch s := &v.VolumeSource; {
	case s.EmptyDir != nil:
		if size := s.EmptyDir.SizeLimit; size != nil && size.Sign() < 0 {
			return field.ErrorList{field.Invalid(at.Child("emptyDir", "sizeLimit"), size.String(), messageMustNotBeNegative)}
		}
	case s.HostPath != nil:
		return hostPath(s.HostPath, at.Child("hostPath"))
	case s.ConfigMap != nil:
		at := at.Child("configMap")
		return slices.Concat(required(at.Child("name"), s.ConfigMap.Name), mode(at.Child("defaultMode"), s.ConfigMap.DefaultMode), keys(s.ConfigMap.Items, at.Child("items")))
	case s.Secret != nil:
		at := at.Child("secret")
		return slices.Concat(required(at.Child("secretName"), s.Secret.SecretName), mode(at.Child("defaultMode"), s.Secret.DefaultMode), keys(s.Secret.Items, at.Child("items")))
	case s.PersistentVolumeClaim != nil:
		return required(at.Child("persistentVolumeClaim", "claimName"), s.PersistentVolumeClaim.ClaimName)
	case s.Ephemeral != nil:
		return ephemeral(s.Ephemeral, at.Child("ephemeral"))
	case s.DownwardAPI != nil:
		at := at.Child("downwardAPI")
		return append(mode(at.Child("defaultMode"), s.DownwardAPI.DefaultMode), downward(s.DownwardAPI.Items, at.Child("items"))...)
	case s.Projected != nil:
		at := at.Child("projected")
		return append(mode(at.Child("defaultMode"), s.Projected.DefaultMode), projected(s.Projected.Sources, at.Child("sources"))...)
	case s.CSI != nil:
		return csi(s.CSI, at.Child("csi"))
	case s.Image != nil:
		at := at.Child("image")
		return append(required(at.Child("reference"), s.Image.Reference), // Before Kubernetes 1.37, API servers require it of pods alone.
			oneOf(at.Child("pullPolicy"), s.Image.PullPolicy, "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	case s.NFS != nil:
		at := at.Child("nfs")
		errs := required(at.Child("server"), s.NFS.Server)
		if !path.IsAbs(s.NFS.Path) {
			errs = append(errs, field.Invalid(at.Child("path"), s.NFS.Path, messagePathMustBeAbsolute))
		}
		return errs
	case s.ISCSI != nil:
		return iscsi(v.Name, s.ISCSI, at.Child("iscsi"))
	case s.FC != nil:
		return fibreChannel(s.FC, at.Child("fc"))
	default:
		return vendorSource(s, at)
	}
	return nil
}

func hostPath(s *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	errs := append(required(at.Child("path"), s.Path), withoutNUL(at.Child("path"), s.Path)...)
	if backsteps(s.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), s.Path, messagePathMustNotContainDotDot))
	}
	return append(errs, oneOf(at.Child("type"), ptr.Deref(s.Type, ""), "", corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
		corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)...)
}

// ephemeral checks the claim that is made for each pod.
func ephemeral(s *corev1.EphemeralVolumeSource, at *field.Path) field.ErrorList {
	at = at.Child("volumeClaimTemplate")
	if s.VolumeClaimTemplate == nil {
		return field.ErrorList{field.Required(at, messageClaimTemplateRequired)}
	}
	meta, spec := &s.VolumeClaimTemplate.ObjectMeta, &s.VolumeClaimTemplate.Spec
	errs := labelMap(meta.Labels, at.Child("metadata", "labels"))
	errs = append(errs, annotationMap(meta.Annotations, at.Child("metadata", "annotations"))...)
	rest := meta.DeepCopy()
	rest.Labels, rest.Annotations = nil, nil
	for _, name := range stated(*rest) {
		if full(errs) {
			break
		}
		errs = append(errs, field.Forbidden(at.Child("metadata", name), messageOnlyLabelsAndAnnotations))
	}
	at = at.Child("spec")
	errs = append(errs, accessModes(spec.AccessModes, at.Child("accessModes"))...)
	if spec.Selector != nil {
		errs = append(errs, selector(spec.Selector, at.Child("selector"))...)
	}
	if size, stated := spec.Resources.Requests[corev1.ResourceStorage]; !stated || size.Sign() <= 0 {
		errs = append(errs, field.Required(at.Child("resources", "requests").Key("storage"), messageVolumeSizeRequired))
	}
	if class := ptr.Deref(spec.StorageClassName, ""); class != "" {
		errs = append(errs, subdomain(class, at.Child("storageClassName"))...)
	}
	if class := ptr.Deref(spec.VolumeAttributesClassName, ""); class != "" {
		errs = append(errs, subdomain(class, at.Child("volumeAttributesClassName"))...)
	}
	errs = append(errs, optional(at.Child("volumeMode"), spec.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	return append(errs, dataSource(spec, at)...)
}

func accessModes(modes []corev1.PersistentVolumeAccessMode, at *field.Path) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(at, messageAccessModeRequired)}
	}
	var errs field.ErrorList
	for i, m := range modes {
		if full(errs) {
			break
		}
		errs = append(errs, oneOf(at.Index(i), m, corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod)...)
	}
	alone := slices.Contains(modes, corev1.ReadWriteOncePod)
	if alone && len(errs) == 0 && slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadWriteOncePod }) {
		errs = append(errs, field.Forbidden(at, messageReadWriteOncePodStandsAlone))
	}
	return errs
}

// dataSource checks what a new volume is filled from.
func dataSource(spec *corev1.PersistentVolumeClaimSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(group *string, kind, name string, at *field.Path) {
		errs = append(errs, append(required(at.Child("name"), name), required(at.Child("kind"), kind)...)...)
		switch g := ptr.Deref(group, ""); {
		case g != "":
			errs = append(errs, faults(at.Child("apiGroup"), g, validation.IsDNS1123Subdomain(g))...)
		case kind != "PersistentVolumeClaim" && kind != "":
			errs = append(errs, field.Invalid(at.Child("kind"), kind, messageDataSourceMustBeClaim))
		}
	}
	from, ref := spec.DataSource, spec.DataSourceRef
	if from != nil {
		check(from.APIGroup, from.Kind, from.Name, at.Child("dataSource"))
	}
	if ref != nil {
		check(ref.APIGroup, ref.Kind, ref.Name, at.Child("dataSourceRef"))
	}
	if from != nil && ref != nil && (!ptr.Equal(from.APIGroup, ref.APIGroup) || from.Kind != ref.Kind || from.Name != ref.Name) {
		errs = append(errs, field.Invalid(at.Child("dataSource"), from.Name, messageDataSourceMustEqualRef))
	}
	return errs
}

// keys checks which keys of a ConfigMap or Secret become which files.
func keys(items []corev1.KeyToPath, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		if full(errs) {
			break
		}
		at := at.Index(i)
		errs = slices.Concat(errs, required(at.Child("key"), item.Key), required(at.Child("path"), item.Path),
			filename(item.Path, at.Child("path")), mode(at.Child("mode"), item.Mode))
	}
	return errs
}

// downward checks which fields of the pod become which files.
func downward(items []corev1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		if full(errs) {
			break
		}
		at := at.Index(i)
		errs = slices.Concat(errs, required(at.Child("path"), item.Path), filename(item.Path, at.Child("path")), mode(at.Child("mode"), item.Mode))
		if (item.FieldRef != nil) == (item.ResourceFieldRef != nil) {
			errs = append(errs, field.Invalid(at, messageItsSource, messageDownwardFileNeedsOneSource))
		}
		if item.FieldRef != nil {
			errs = append(errs, fieldRef(item.FieldRef, ofFile, at.Child("fieldRef"))...)
		}
		if item.ResourceFieldRef != nil {
			errs = append(errs, required(at.Child("resourceFieldRef", "containerName"), item.ResourceFieldRef.ContainerName)...)
			errs = append(errs, resourceFieldRef(item.ResourceFieldRef, at.Child("resourceFieldRef"))...)
		}
	}
	return errs
}

// projected checks the sources of one volume. No two may write the same file.
func projected(sources []corev1.VolumeProjection, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	taken := sets.Set[string]{}
	for i := range sources {
		if full(errs) {
			break
		}
		errs = append(errs, projection(&sources[i], at.Index(i))...)
		for _, file := range projectedFiles(&sources[i], at.Index(i)) {
			if full(errs) {
				break
			}
			if file.path != "" && taken.Has(file.path) {
				errs = append(errs, field.Duplicate(file.at, file.path))
			}
			taken.Insert(file.path)
		}
	}
	return errs
}

// projection checks one source of a projected volume. The fields of clusterTrustBundle and podCertificate are for the API server to check:
// unless their features are on, it drops them.
func projection(s *corev1.VolumeProjection, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := set(*s); n > 1 {
		errs = append(errs, field.Invalid(at, fmt.Sprintf(messageCountOfSources, n), messageProjectionNeedsOneSource))
	}
	if s.Secret != nil {
		at := at.Child("secret")
		errs = slices.Concat(errs, required(at.Child("name"), s.Secret.Name), keys(s.Secret.Items, at.Child("items")))
	}
	if s.ConfigMap != nil {
		at := at.Child("configMap")
		errs = slices.Concat(errs, required(at.Child("name"), s.ConfigMap.Name), keys(s.ConfigMap.Items, at.Child("items")))
	}
	if s.DownwardAPI != nil {
		errs = append(errs, downward(s.DownwardAPI.Items, at.Child("downwardAPI", "items"))...)
	}
	if token := s.ServiceAccountToken; token != nil {
		at := at.Child("serviceAccountToken")
		errs = slices.Concat(errs, required(at.Child("path"), token.Path), filename(token.Path, at.Child("path")),
			within(at.Child("expirationSeconds"), ptr.Deref(token.ExpirationSeconds, 3600), 600, 1<<32))
	}
	return errs
}

// projectedFile is a file that a source of a projected volume writes, and the field with its path.
type projectedFile struct {
	path string
	at   *field.Path
}

// projectedFiles returns the files of one source whose paths have to differ from the paths of all other sources of the volume.
func projectedFiles(s *corev1.VolumeProjection, at *field.Path) []projectedFile {
	var files []projectedFile
	add := func(items []corev1.KeyToPath, at *field.Path) {
		for i := range items {
			files = append(files, projectedFile{items[i].Path, at.Index(i).Child("path")})
		}
	}
	if s.Secret != nil {
		add(s.Secret.Items, at.Child("secret", "items"))
	}
	if s.ConfigMap != nil {
		add(s.ConfigMap.Items, at.Child("configMap", "items"))
	}
	if s.DownwardAPI != nil {
		at := at.Child("downwardAPI", "items")
		for i := range s.DownwardAPI.Items {
			files = append(files, projectedFile{s.DownwardAPI.Items[i].Path, at.Index(i).Child("path")})
		}
	}
	return files
}

func monitors(list []string, at *field.Path) field.ErrorList {
	if len(list) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(at.Child("monitors"), messageCephMonitorsRequired)}
}

func secretRef(ref *corev1.LocalObjectReference, at *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return required(at.Child("secretRef", "name"), ref.Name)
}

// required checks that a field is not empty.
func required(at *field.Path, value string) field.ErrorList {
	if value != "" {
		return nil
	}
	return field.ErrorList{field.Required(at, messageMustNotBeEmpty)}
}

// mode checks the permissions of a file.
func mode(at *field.Path, bits *int32) field.ErrorList {
	if bits == nil || *bits >= 0 && *bits <= 0o777 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *bits, messageFileModeMustBeInRange)}
}

// within checks that a number is in a range, both ends included.
func within[T int32 | int64](at *field.Path, n, least, most T) field.ErrorList {
	if n >= least && n <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(at, n, fmt.Sprintf(messageMustBeInRange, least, most))}
}
