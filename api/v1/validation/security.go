package validation

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// containerSecurity checks the privileges of a container. Whether the cluster allows any privileged ones is its own affair.
func (p *pod) containerSecurity(s *corev1.SecurityContext, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := user(s.RunAsUser, at.Child("runAsUser"))
	errs = append(errs, group(s.RunAsGroup, at.Child("runAsGroup"))...)
	errs = append(errs, optional(at.Child("procMount"), s.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
	if ptr.Deref(s.ProcMount, "") == corev1.UnmaskedProcMount && ptr.Deref(p.spec.HostUsers, true) {
		errs = append(errs, field.Invalid(at.Child("procMount"), string(*s.ProcMount), messageUnmaskedNeedsUserNamespace))
	}
	errs = append(errs, seccomp(s.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, appArmor(s.AppArmorProfile, at.Child("appArmorProfile"))...)
	errs = append(errs, windowsOptions(s.WindowsOptions, at.Child("windowsOptions"))...)
	if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		if ptr.Deref(s.Privileged, false) {
			errs = append(errs, field.Invalid(at.Child("allowPrivilegeEscalation"), false, messagePrivilegedAllowsEscalation))
		}
		if s.Capabilities != nil && sets.New(s.Capabilities.Add...).Has("CAP_SYS_ADMIN") {
			errs = append(errs, field.Invalid(at.Child("allowPrivilegeEscalation"), false, messageSysAdminAllowsEscalation))
		}
	}
	return errs
}

// podSecurity checks the privileges of a pod. The label of its volumes is always changed recursively: what else
// seLinuxChangePolicy could say is refused unless a feature is on that is off by default.
func (p *pod) podSecurity(s *corev1.PodSecurityContext, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := user(s.RunAsUser, at.Child("runAsUser"))
	errs = append(errs, group(s.RunAsGroup, at.Child("runAsGroup"))...)
	errs = append(errs, group(s.FSGroup, at.Child("fsGroup"))...)
	for i := range s.SupplementalGroups {
		if full(errs) {
			break
		}
		errs = append(errs, group(&s.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))...)
	}
	errs = append(errs, optional(at.Child("fsGroupChangePolicy"), s.FSGroupChangePolicy, corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways)...)
	errs = append(errs, optional(at.Child("supplementalGroupsPolicy"), s.SupplementalGroupsPolicy, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	errs = append(errs, optional(at.Child("seLinuxChangePolicy"), s.SELinuxChangePolicy, corev1.SELinuxChangePolicyRecursive)...)
	errs = append(errs, seccomp(s.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, appArmor(s.AppArmorProfile, at.Child("appArmorProfile"))...)
	errs = append(errs, windowsOptions(s.WindowsOptions, at.Child("windowsOptions"))...)
	return append(errs, p.sysctls(s.Sysctls, at.Child("sysctls"))...)
}

func user(id *int64, at *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	return faults(at, *id, validation.IsValidUserID(*id))
}

func group(id *int64, at *field.Path) field.ErrorList {
	if id == nil {
		return nil
	}
	return faults(at, *id, validation.IsValidGroupID(*id))
}

func seccomp(profile *corev1.SeccompProfile, at *field.Path) field.ErrorList {
	if profile == nil {
		return nil
	}
	errs := oneOf(at.Child("type"), profile.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	at, name := at.Child("localhostProfile"), profile.LocalhostProfile
	switch local := profile.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && name == nil:
		errs = append(errs, field.Required(at, messageLocalhostNeedsProfile))
	case local:
		errs = append(errs, descends(*name, at)...)
	case name != nil:
		errs = append(errs, field.Forbidden(at, messageProfileNeedsLocalhost))
	}
	return errs
}

func appArmor(profile *corev1.AppArmorProfile, at *field.Path) field.ErrorList {
	const longest = 4095
	if profile == nil {
		return nil
	}
	errs := oneOf(at.Child("type"), profile.Type, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	at, name := at.Child("localhostProfile"), profile.LocalhostProfile
	switch local := profile.Type == corev1.AppArmorProfileTypeLocalhost; {
	case local && ptr.Deref(name, "") == "":
		errs = append(errs, field.Required(at, messageLocalhostNeedsProfile))
	case local && strings.TrimSpace(*name) != *name:
		errs = append(errs, field.Invalid(at, *name, messageNoOuterWhiteSpace))
	case local && len(*name) > longest:
		errs = append(errs, field.TooLong(at, *name, longest))
	case !local && name != nil:
		errs = append(errs, field.Forbidden(at, messageProfileNeedsLocalhost))
	}
	return errs
}

var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// sysctls checks settings of the kernel: none twice, and none that is the node's where the pod shares that part of the kernel.
func (p *pod) sysctls(list []corev1.Sysctl, at *field.Path) field.ErrorList {
	const longest = 253
	var errs field.ErrorList
	names := sets.Set[string]{}
	for i, s := range list {
		if full(errs) {
			break
		}
		at := at.Index(i).Child("name")
		switch {
		case len(s.Name) > longest || !sysctlName.MatchString(s.Name):
			errs = append(errs, field.Invalid(at, s.Name, messageSysctlNameInvalid))
		case names.Has(s.Name):
			errs = append(errs, field.Duplicate(at, s.Name))
		case p.spec.HostNetwork && sysctlOf(s.Name, "net"):
			errs = append(errs, field.Invalid(at, s.Name, messageSysctlExcludesHostNetwork))
		case p.spec.HostIPC && sysctlOf(s.Name, "fs.mqueue", "kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni",
			"kernel.shm_rmid_forced", "kernel.shm", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg"):
			errs = append(errs, field.Invalid(at, s.Name, messageSysctlExcludesHostIPC))
		}
		names.Insert(s.Name)
	}
	return errs
}

// sysctlOf reports whether a sysctl is a known one, or below a known prefix. In a name with a slash as the first separator, dots
// and slashes are swapped.
func sysctlOf(name string, known ...string) bool {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		name = strings.NewReplacer(".", "/", "/", ".").Replace(name)
	}
	for _, k := range known {
		if name == k && strings.HasPrefix(k, "kernel.") || strings.HasPrefix(name, k+".") && !strings.HasPrefix(k, "kernel.") {
			return true
		}
	}
	return false
}

// The names of users of Windows, each as user or domain\user.
var (
	windowsControl = regexp.MustCompile(`[[:cntrl:]]`)
	windowsDomain  = regexp.MustCompile(`^([^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}|[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*)$`)
	windowsUser    = regexp.MustCompile(`^[^"/\\:;|=,+*?<>@\[\]]{1,}$`)
	windowsDots    = regexp.MustCompile(`^[. ]+$`)
)

func windowsOptions(w *corev1.WindowsSecurityContextOptions, at *field.Path) field.ErrorList {
	const longestSpec, longestDomain, longestUser = 64 << 10, 255, 104
	if w == nil {
		return nil
	}
	var errs field.ErrorList
	if name := w.GMSACredentialSpecName; name != nil {
		errs = append(errs, faults(at.Child("gmsaCredentialSpecName"), *name, validation.IsDNS1123Subdomain(*name))...)
	}
	if spec := w.GMSACredentialSpec; spec != nil && (*spec == "" || len(*spec) > longestSpec) {
		errs = append(errs, field.Invalid(at.Child("gmsaCredentialSpec"), fmt.Sprintf(messageCountOfBytes, len(*spec)),
			messageCredentialSpecSizeInvalid))
	}
	if w.RunAsUserName == nil {
		return errs
	}
	domain, name, both := strings.Cut(*w.RunAsUserName, `\`)
	if !both {
		domain, name = "", domain
	}
	if windowsControl.MatchString(*w.RunAsUserName) || both && (len(domain) > longestDomain || !windowsDomain.MatchString(domain)) ||
		len(name) > longestUser || !windowsUser.MatchString(name) || windowsDots.MatchString(name) {
		errs = append(errs, field.Invalid(at.Child("runAsUserName"), *w.RunAsUserName, messageWindowsUserInvalid))
	}
	return errs
}

// hostProcess checks that of Windows' host processes a pod has either only such, on the node's network, or none.
func (p *pod) hostProcess() field.ErrorList {
	var ofPod *bool
	if s := p.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		ofPod = s.WindowsOptions.HostProcess
	}
	var errs field.ErrorList
	all, host := 0, 0
	p.each(func(c *corev1.Container, at place) {
		all++
		of := ofPod
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil && c.SecurityContext.WindowsOptions.HostProcess != nil {
			of = c.SecurityContext.WindowsOptions.HostProcess
			if ofPod != nil && *ofPod != *of && !full(errs) {
				errs = append(errs, field.Invalid(at.self.Child("securityContext", "windowsOptions", "hostProcess"), *of,
					messageHostProcessMustEqualPod))
			}
		}
		if ptr.Deref(of, false) {
			host++
		}
	})
	at := p.at.security.Child("windowsOptions", "hostProcess")
	if host > 0 && host != all {
		errs = append(errs, field.Invalid(at, host, messageHostProcessMustBeOfAll))
	}
	if host > 0 && !p.spec.HostNetwork {
		errs = append(errs, field.Invalid(at, true, messageHostProcessNeedsHostNetwork))
	}
	return errs
}

// system checks that nothing is asked for that the pod's operating system does not have.
func (p *pod) system() field.ErrorList {
	if p.spec.OS == nil {
		return nil
	}
	var errs field.ErrorList
	refuse := func(at *field.Path) {
		errs = append(errs, field.Forbidden(at, fmt.Sprintf(messageNotAvailableOnSystem, p.spec.OS.Name)))
	}
	linux := p.spec.OS.Name == corev1.Linux
	if s := p.spec.SecurityContext; s != nil {
		refuseAll(refuse, *s, linux, p.at.security)
	}
	p.each(func(c *corev1.Container, at place) {
		if c.SecurityContext != nil && !full(errs) {
			refuseAll(refuse, *c.SecurityContext, linux, at.self.Child("securityContext"))
		}
	})
	return errs
}

// eitherSystem are the fields of a security context that Windows has as well.
var eitherSystem = sets.New("runAsNonRoot", "windowsOptions")

// refuseAll reports the stated fields of a security context that the operating system lacks.
func refuseAll[T corev1.SecurityContext | corev1.PodSecurityContext](refuse func(*field.Path), privileges T, linux bool, at *field.Path) {
	for _, name := range stated(privileges) {
		if linux && name == "windowsOptions" || !linux && !eitherSystem.Has(name) {
			refuse(at.Child(name))
		}
	}
}
