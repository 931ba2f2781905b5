package resource

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// probes returns the main container's probes: those of the spec, and defaults that connect to the first TCP port that the
// container declares for the Service.
//
// By default there is a readiness probe. Liveness is for kinds that restart a container by default (restarts), and never
// without a startup probe that guards it: that is tried each second, so that it delays nothing, and for a day, so that it
// kills nothing that is merely slow. A startup probe holds the other two back, so there is no default one as soon as the spec
// states a probe of its own, which may be about another port.
func probes(spec *appv1.Probes, ports []corev1.ContainerPort, restarts bool, in Inputs) (liveness, readiness, startup *corev1.Probe) {
	if spec.Disabled {
		return nil, nil, nil
	}
	liveness, readiness, startup = spec.Liveness, spec.Readiness, spec.Startup
	port := firstTCP(ports)
	if port == 0 || in.Rendering == RenderingTutorial {
		return liveness, readiness, startup
	}
	// The default startup probe has nothing to guard but the default liveness probe.
	guard := restarts && liveness == nil && readiness == nil && startup == nil
	if liveness == nil && restarts && (guard || startup != nil) {
		liveness = connection(port, 10, 6, 5)
	}
	if readiness == nil {
		readiness = connection(port, 5, 3, 5)
	}
	if guard {
		startup = connection(port, 1, 24*60*60, 1)
	}
	return liveness, readiness, startup
}

// firstTCP returns the number of the first TCP port, 0 if there is none.
func firstTCP(ports []corev1.ContainerPort) int32 {
	for _, p := range ports {
		if p.Protocol == corev1.ProtocolTCP {
			return p.ContainerPort
		}
	}
	return 0
}

// connection returns a probe that succeeds if a TCP connection can be made. It is tried every period seconds, fails after
// timeout seconds, and counts as failed after so many failures in a row.
func connection(port, period, failures, timeout int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}},
		PeriodSeconds:    period,
		FailureThreshold: failures,
		TimeoutSeconds:   timeout,
	}
}
