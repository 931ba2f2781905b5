package main

import (
	"fmt"
)

const (
	serviceIPRange = "10.96.0.0/16"
	// apiserverServiceIP is the first of the range, which the API server takes for the Service "kubernetes".
	apiserverServiceIP = "10.96.0.1"
	frontProxyName     = "front-proxy-client"
)

// etcdURL is where etcd serves. A socket in the state directory needs no free port, and no other user of the
// machine can open it.
func etcdURL(s *state) string { return "unix://" + s.path("etcd.sock") }

// peerSocket is the longest name of a socket in the state directory.
const peerSocket = "etcd-peer.sock"

func etcdArgs(s *state) []string {
	return []string{
		"--data-dir=" + s.path("etcd"),
		"--listen-client-urls=" + etcdURL(s),
		"--listen-peer-urls=unix://" + s.path(peerSocket),
		// The advertised URL may not be a socket. Nobody uses it: etcd has no peers, and the API server has the socket.
		"--advertise-client-urls=http://localhost:2379",
		"--enable-grpc-gateway=false",
		"--quota-backend-bytes=8589934592", // A load of large objects writes more than the default of 2 GiB between two compactions.
		"--unsafe-no-fsync",                // a crash of the machine may lose data that nobody would look for
	}
}

func apiserverArgs(s *state, port int, bare bool, extra []string) []string {
	pki := func(name string) string { return s.path("pki", name) }
	args := []string{
		"--etcd-servers=" + etcdURL(s),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--permit-port-sharing=true", // with the supervisor, which holds the port: see reservedPort
		// Endpoints may not be loopback addresses, and no pod runs that would ask for one.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + pki("front-proxy.crt"),
		"--proxy-client-key-file=" + pki("front-proxy.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pki("service-account.key"),
		"--service-account-signing-key-file=" + pki("service-account.key"),
		"--service-cluster-ip-range=" + serviceIPRange,
		"--authorization-mode=RBAC",
		// As on OpenShift: who sets an owner with blockOwnerDeletion must be allowed to finalize that owner.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--allow-privileged=true",
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1000",
		// Without it, a stop waits for a minute for those who watch.
		"--shutdown-watch-termination-grace-period=1s",
	}
	if bare {
		// This admission plugin would reject every pod: no controller makes the service accounts that it requires.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	for _, flag := range extra {
		args = append(args, "--"+flag)
	}
	return args
}

func controllerManagerArgs(s *state) []string {
	return append(kubeClientArgs(s.path(controllerManagerKubeconfig)),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+s.path("pki", "service-account.key"),
		"--root-ca-file="+s.path("pki", "ca.crt"),
		"--cluster-signing-cert-file="+s.path("pki", "ca.crt"),
		"--cluster-signing-key-file="+s.path("pki", "ca.key"),
		"--flex-volume-plugin-dir="+s.path("flexvolume"), // by default it makes one in /usr
		// A laptop that wakes up, or a machine under load, must not lose its simulated nodes.
		"--node-monitor-grace-period=1h",
	)
}

func schedulerArgs(s *state) []string {
	return kubeClientArgs(s.path(schedulerKubeconfig))
}

// kubeClientArgs are what the controller manager and the scheduler have in common: each is the only one of its
// kind, serves nothing, and leaves throttling to the API server.
func kubeClientArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

func kwokArgs(s *state) []string {
	return []string{
		"--kubeconfig=" + s.path(adminKubeconfig),
		"--config=" + s.path(stagesFile),
		"--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector=" + simulatedNodeAnnotation + "=" + simulatedNodeValue,
		"--node-lease-duration-seconds=40",
	}
}
