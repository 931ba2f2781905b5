package resource

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// mainProbes returns the main container's probes: the probes of the spec, and default probes that connect to the first TCP port that
// the container declares for the Service.
//
// The readiness probe has a default. The liveness probe has a default only for kinds that restart a container by default
// (restarts), and only together with a startup probe: it runs every second, so that it adds no delay, and fails only after a day,
// so that it never ends a container that starts slowly. As a startup probe delays the other probes, there is no default startup
// probe if the spec states any probe, which may be for another port. A spec that disables the default probes has those that it states.
func mainProbes(spec *appv1.Probes, ports []corev1.ContainerPort, restarts bool, in BuildInputs) (liveness, readiness, startup *corev1.Probe) {
	liveness, readiness, startup = spec.Liveness, spec.Readiness, spec.Startup
	port := firstTCP(ports)
	if spec.Disabled || port == 0 || in.Rendering == RenderingTutorial {
		return liveness, readiness, startup
	}
	// The default startup probe protects only the default liveness probe.
	guard := restarts && liveness == nil && readiness == nil && startup == nil
	if liveness == nil && restarts && (guard || startup != nil) {
		liveness = tcpProbe(port, 10, 6, 5)
	}
	if readiness == nil {
		readiness = tcpProbe(port, 5, 3, 5)
	}
	if guard {
		startup = tcpProbe(port, 1, 24*60*60, 1)
	}
	return liveness, readiness, startup
}

// firstTCP returns the number of the first TCP port, 0 without a TCP port.
func firstTCP(ports []corev1.ContainerPort) int32 {
	for _, p := range ports {
		if p.Protocol == corev1.ProtocolTCP {
			return p.ContainerPort
		}
	}
	return 0
}

// tcpProbe returns a probe that opens a TCP connection. period and timeout are in seconds; failures is the failure threshold.
func tcpProbe(port, period, failures, timeout int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}},
		PeriodSeconds:    period,
		FailureThreshold: failures,
		TimeoutSeconds:   timeout,
	}
}
