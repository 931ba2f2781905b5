package validation

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// vendorSource checks the sources that are one vendor's each; most of them live on in name only.
func vendorSource(s *corev1.VolumeSource, at *field.Path) field.ErrorList {
	switch {
	case s.GitRepo != nil:
		at := at.Child("gitRepo")
		return append(required(at.Child("repository"), s.GitRepo.Repository), descends(s.GitRepo.Directory, at.Child("directory"))...)
	case s.GCEPersistentDisk != nil:
		at := at.Child("gcePersistentDisk")
		return append(required(at.Child("pdName"), s.GCEPersistentDisk.PDName), within(at.Child("partition"), s.GCEPersistentDisk.Partition, 0, 255)...)
	case s.AWSElasticBlockStore != nil:
		at := at.Child("awsElasticBlockStore")
		return append(required(at.Child("volumeID"), s.AWSElasticBlockStore.VolumeID), within(at.Child("partition"), s.AWSElasticBlockStore.Partition, 0, 255)...)
	case s.Glusterfs != nil:
		at := at.Child("glusterfs")
		return append(required(at.Child("endpoints"), s.Glusterfs.EndpointsName), required(at.Child("path"), s.Glusterfs.Path)...)
	case s.RBD != nil:
		at := at.Child("rbd")
		return append(monitors(s.RBD.CephMonitors, at), required(at.Child("image"), s.RBD.RBDImage)...)
	case s.CephFS != nil:
		return monitors(s.CephFS.Monitors, at.Child("cephfs"))
	case s.Cinder != nil:
		at := at.Child("cinder")
		return append(required(at.Child("volumeID"), s.Cinder.VolumeID), secretRef(s.Cinder.SecretRef, at)...)
	case s.AzureFile != nil:
		at := at.Child("azureFile")
		return append(required(at.Child("secretName"), s.AzureFile.SecretName), required(at.Child("shareName"), s.AzureFile.ShareName)...)
	case s.VsphereVolume != nil:
		return required(at.Child("vsphereVolume", "volumePath"), s.VsphereVolume.VolumePath)
	case s.PhotonPersistentDisk != nil:
		return required(at.Child("photonPersistentDisk", "pdID"), s.PhotonPersistentDisk.PdID)
	case s.PortworxVolume != nil:
		return required(at.Child("portworxVolume", "volumeID"), s.PortworxVolume.VolumeID)
	case s.ScaleIO != nil:
		at := at.Child("scaleIO")
		return slices.Concat(required(at.Child("gateway"), s.ScaleIO.Gateway), required(at.Child("system"), s.ScaleIO.System), required(at.Child("volumeName"), s.ScaleIO.VolumeName))
	case s.Flocker != nil:
		return flocker(s.Flocker, at.Child("flocker"))
	case s.Quobyte != nil:
		return quobyte(s.Quobyte, at.Child("quobyte"))
	case s.AzureDisk != nil:
		return azureDisk(s.AzureDisk, at.Child("azureDisk"))
	case s.StorageOS != nil:
		return storageOS(s.StorageOS, at.Child("storageos"))
	case s.FlexVolume != nil:
		return flexVolume(s.FlexVolume, at.Child("flexVolume"))
	}
	return nil
}

func csi(s *corev1.CSIVolumeSource, at *field.Path) field.ErrorList {
	const longest = 63
	errs := faults(at.Child("driver"), s.Driver, validation.IsDNS1123Subdomain(strings.ToLower(s.Driver)))
	if len(s.Driver) > longest {
		errs = append(errs, field.TooLong(at.Child("driver"), s.Driver, longest))
	}
	if s.NodePublishSecretRef != nil {
		errs = append(errs, subdomain(s.NodePublishSecretRef.Name, at.Child("nodePublishSecretRef", "name"))...)
	}
	return errs
}

// The names of a target or an initiator, by their beginning.
var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.[[:alnum:].-]+:[^,;*&$|\s]+$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

func iscsi(volume string, s *corev1.ISCSIVolumeSource, at *field.Path) field.ErrorList {
	const longest = 64
	name := func(value string, at *field.Path) field.ErrorList {
		if known := iscsiNames[value[:min(len(value), 3)]]; known != nil && known.MatchString(value) {
			return nil
		}
		return field.ErrorList{field.Invalid(at, value, messageISCSINameInvalid)}
	}
	errs := slices.Concat(required(at.Child("targetPortal"), s.TargetPortal), name(s.IQN, at.Child("iqn")), within(at.Child("lun"), s.Lun, 0, 255))
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		errs = append(errs, field.Required(at.Child("secretRef"), messageISCSIAuthNeedsSecret))
	}
	if s.InitiatorName != nil {
		errs = append(errs, name(*s.InitiatorName, at.Child("initiatorName"))...)
		if n := len(volume + ":" + s.TargetPortal); n > longest {
			errs = append(errs, field.Invalid(at.Child("initiatorName"), *s.InitiatorName,
				fmt.Sprintf(messageISCSIInitiatorTooLong, longest, n-1)))
		}
	}
	return errs
}

func fibreChannel(s *corev1.FCVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if (len(s.TargetWWNs) > 0) == (len(s.WWIDs) > 0) {
		errs = append(errs, field.Invalid(at, messageItsNames, messageFibreChannelNeedsOneName))
	}
	if len(s.TargetWWNs) == 0 {
		return errs
	}
	if s.Lun == nil {
		return append(errs, field.Required(at.Child("lun"), messageFibreChannelNeedsLun))
	}
	return append(errs, within(at.Child("lun"), *s.Lun, 0, 255)...)
}

func flocker(s *corev1.FlockerVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if (s.DatasetName != "") == (s.DatasetUUID != "") {
		errs = append(errs, field.Invalid(at, s.DatasetName, messageFlockerNeedsOneDataset))
	}
	if strings.Contains(s.DatasetName, "/") {
		errs = append(errs, field.Invalid(at.Child("datasetName"), s.DatasetName, messageFlockerDatasetMustNotContainSlash))
	}
	return errs
}

func quobyte(s *corev1.QuobyteVolumeSource, at *field.Path) field.ErrorList {
	const longest = 64
	errs := append(required(at.Child("registry"), s.Registry), required(at.Child("volume"), s.Volume)...)
	switch {
	case s.Registry == "":
	case len(s.Tenant) > longest:
		errs = append(errs, field.TooLong(at.Child("tenant"), s.Tenant, longest))
	default:
		for _, pair := range strings.Split(s.Registry, ",") {
			if full(errs) {
				break
			}
			if _, _, err := net.SplitHostPort(pair); err != nil {
				errs = append(errs, field.Invalid(at.Child("registry"), s.Registry, messageQuobyteRegistryInvalid))
			}
		}
	}
	return errs
}

func azureDisk(s *corev1.AzureDiskVolumeSource, at *field.Path) field.ErrorList {
	errs := slices.Concat(required(at.Child("diskName"), s.DiskName), required(at.Child("diskURI"), s.DataDiskURI))
	errs = append(errs, optional(at.Child("cachingMode"), s.CachingMode,
		corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	kind, prefix := ptr.Deref(s.Kind, corev1.AzureSharedBlobDisk), "https://"
	if kind == corev1.AzureManagedDisk {
		prefix = "/subscriptions/"
	}
	errs = append(errs, oneOf(at.Child("kind"), kind, corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk)...)
	if !strings.HasPrefix(s.DataDiskURI, prefix) {
		errs = append(errs, field.Invalid(at.Child("diskURI"), s.DataDiskURI, fmt.Sprintf(messageAzureDiskURIInvalid, prefix, kind)))
	}
	return errs
}

func storageOS(s *corev1.StorageOSVolumeSource, at *field.Path) field.ErrorList {
	errs := faults(at.Child("volumeName"), s.VolumeName, validation.IsDNS1123Label(s.VolumeName))
	if s.VolumeNamespace != "" {
		errs = append(errs, faults(at.Child("volumeNamespace"), s.VolumeNamespace, validation.IsDNS1123Label(s.VolumeNamespace))...)
	}
	return append(errs, secretRef(s.SecretRef, at)...)
}

func flexVolume(s *corev1.FlexVolumeSource, at *field.Path) field.ErrorList {
	errs := required(at.Child("driver"), s.Driver)
	var reserved []string
	for key := range s.Options {
		domain, _, _ := strings.Cut(key, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			reserved = append(reserved, key)
		}
	}
	slices.Sort(reserved)
	for _, key := range reserved {
		if full(errs) {
			break
		}
		errs = append(errs, field.Invalid(keyIn(at.Child("options"), key), key, messageFlexVolumeOptionReserved))
	}
	return errs
}
