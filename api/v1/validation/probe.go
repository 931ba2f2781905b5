package validation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// How often a probe may have to succeed.
const (
	once     = false
	repeated = true
)

// probe checks that a probe has exactly one handler. The success threshold of a probe that restarts the container must be 1.
func (p *pod) probe(probe *corev1.Probe, often bool, at *field.Path) field.ErrorList {
	if probe == nil {
		return nil
	}
	var errs field.ErrorList
	if n := set(probe.ProbeHandler); n != 1 {
		errs = append(errs, field.Invalid(at, fmt.Sprintf(messageCountOfHandlers, n), messageProbeNeedsOneHandler))
	}
	errs = append(errs, handler(probe.Exec, probe.HTTPGet, probe.TCPSocket, at)...)
	if probe.GRPC != nil {
		errs = append(errs, portNumber(probe.GRPC.Port, at.Child("grpc", "port"))...)
	}
	switch {
	case !often && probe.SuccessThreshold > 1:
		errs = append(errs, field.Invalid(at.Child("successThreshold"), probe.SuccessThreshold, messageSuccessThresholdMustBeOne))
	case often && probe.TerminationGracePeriodSeconds != nil:
		errs = append(errs, field.Forbidden(at.Child("terminationGracePeriodSeconds"), messageReadinessHasNoGracePeriod))
	}
	if grace := probe.TerminationGracePeriodSeconds; grace != nil && *grace < 1 {
		errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), *grace, messageMustBeAtLeastOne))
	}
	for _, f := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", probe.InitialDelaySeconds}, {"timeoutSeconds", probe.TimeoutSeconds}, {"periodSeconds", probe.PeriodSeconds},
		{"successThreshold", probe.SuccessThreshold}, {"failureThreshold", probe.FailureThreshold},
	} {
		if f.value < 0 {
			errs = append(errs, field.Invalid(at.Child(f.name), f.value, messageMustNotBeNegative))
		}
	}
	return errs
}

// lifecycle checks that each action has exactly one handler.
func (p *pod) lifecycle(l *corev1.Lifecycle, at *field.Path) field.ErrorList {
	if l == nil {
		return nil
	}
	errs := append(p.action(l.PostStart, at.Child("postStart")), p.action(l.PreStop, at.Child("preStop"))...)
	if l.StopSignal != nil {
		errs = append(errs, p.stopSignal(*l.StopSignal, at.Child("stopSignal"))...)
	}
	return errs
}

func (p *pod) action(h *corev1.LifecycleHandler, at *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	var errs field.ErrorList
	if n := set(*h); n != 1 {
		errs = append(errs, field.Invalid(at, fmt.Sprintf(messageCountOfHandlers, n), messageActionNeedsOneHandler))
	}
	errs = append(errs, handler(h.Exec, h.HTTPGet, h.TCPSocket, at)...)
	const usual = 30
	if grace := ptr.Deref(p.spec.TerminationGracePeriodSeconds, usual); h.Sleep != nil && (h.Sleep.Seconds < 0 || h.Sleep.Seconds > grace) {
		errs = append(errs, field.Invalid(at.Child("sleep", "seconds"), h.Sleep.Seconds,
			fmt.Sprintf(messageSleepMustNotExceedGracePeriod, grace)))
	}
	return errs
}

// stopSignal checks the signal that ends a container. A cluster may drop it all the same: the feature is off by default.
func (p *pod) stopSignal(signal corev1.Signal, at *field.Path) field.ErrorList {
	if p.spec.OS == nil {
		return field.ErrorList{field.Forbidden(at, messageStopSignalNeedsSystem)}
	}
	if p.spec.OS.Name == corev1.Windows {
		return oneOf(at, signal, corev1.SIGKILL, corev1.SIGTERM)
	}
	return nil
}

// handler checks what probes and actions share.
func handler(exec *corev1.ExecAction, http *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if exec != nil && len(exec.Command) == 0 {
		errs = append(errs, field.Required(at.Child("exec", "command"), messageCommandRequired))
	}
	if exec != nil {
		errs = append(errs, eachWithoutNUL(at.Child("exec", "command"), exec.Command)...)
	}
	if tcp != nil {
		errs = append(errs, portNumberOrName(tcp.Port, at.Child("tcpSocket", "port"))...)
	}
	if http == nil {
		return errs
	}
	at = at.Child("httpGet")
	errs = append(errs, portNumberOrName(http.Port, at.Child("port"))...)
	errs = append(errs, oneOf(at.Child("scheme"), http.Scheme, "", corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for i, header := range http.HTTPHeaders {
		if full(errs) {
			break
		}
		errs = append(errs, faults(at.Child("httpHeaders").Index(i).Child("name"), header.Name, validation.IsHTTPHeaderName(header.Name))...)
	}
	return errs
}

func portNumber(n int32, at *field.Path) field.ErrorList {
	return faults(at, n, validation.IsValidPortNum(int(n)))
}

func portNumberOrName(port intstr.IntOrString, at *field.Path) field.ErrorList {
	if port.Type == intstr.Int {
		return portNumber(port.IntVal, at)
	}
	return faults(at, port.StrVal, validation.IsValidPortName(port.StrVal))
}

// resourceClaims checks the claims of a pod.
func resourceClaims(list []corev1.PodResourceClaim, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.Set[string]{}
	for _, c := range list {
		if full(errs) {
			break
		}
		at := keyIn(at, c.Name)
		errs = append(errs, faults(at.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))...)
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names.Insert(c.Name)
		if (c.ResourceClaimName != nil) == (c.ResourceClaimTemplateName != nil) {
			errs = append(errs, field.Invalid(at, c.Name, messageResourceClaimNeedsOneSource))
		}
		if c.ResourceClaimName != nil {
			errs = append(errs, subdomain(*c.ResourceClaimName, at.Child("resourceClaimName"))...)
		}
		if c.ResourceClaimTemplateName != nil {
			errs = append(errs, subdomain(*c.ResourceClaimTemplateName, at.Child("resourceClaimTemplateName"))...)
		}
	}
	return errs
}

// gates checks the conditions that a pod waits for, to be ready or to be scheduled.
func gates(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, gate := range spec.ReadinessGates {
		if full(errs) {
			break
		}
		name := string(gate.ConditionType)
		errs = append(errs, faults(at.Child("readinessGates").Index(i).Child("conditionType"), name, validation.IsQualifiedName(name))...)
	}
	taken := sets.Set[string]{}
	for _, gate := range spec.SchedulingGates {
		if full(errs) {
			break
		}
		at := keyIn(at.Child("schedulingGates"), gate.Name)
		errs = append(errs, faults(at.Child("name"), gate.Name, validation.IsQualifiedName(gate.Name))...)
		if taken.Has(gate.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), gate.Name))
		}
		taken.Insert(gate.Name)
	}
	return errs
}
