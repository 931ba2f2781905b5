package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The kubeconfigs in a cluster's state directory. exportRecord holds the path of the copy of the admin's that
// the user asked for, so that it can be removed even after a supervisor that was killed.
const (
	adminKubeconfig             = "kubeconfig"
	controllerManagerKubeconfig = "controller-manager.kubeconfig"
	schedulerKubeconfig         = "scheduler.kubeconfig"
	exportRecord                = "kubeconfig.exported-to"
)

// writeKubeconfigs writes the kubeconfigs of a cluster's clients, with all certificates inside.
func writeKubeconfigs(s *state, port int, ids *identities) error {
	for file, id := range map[string]keyPair{
		adminKubeconfig:             ids.admin,
		controllerManagerKubeconfig: ids.controllerManager,
		schedulerKubeconfig:         ids.scheduler,
	} {
		if err := clientcmd.WriteToFile(*newKubeconfig(s.name, port, ids.ca, id), s.path(file)); err != nil {
			return err
		}
	}
	return nil
}

func newKubeconfig(cluster string, port int, ca []byte, id keyPair) *clientcmdapi.Config {
	name := "app-operator-" + cluster
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   fmt.Sprintf("https://127.0.0.1:%d", port),
		CertificateAuthorityData: ca,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: id.cert, ClientKeyData: id.key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return config
}

// adminClient is how the supervisor itself talks to the API server.
func adminClient(s *state) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.path(adminKubeconfig))
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no throttling on this side
	return kubernetes.NewForConfig(config)
}

// checkExport refuses to write over a file with something in it: it would be a user's kubeconfig, and
// lost at the latest when the cluster ends. An empty one, as mktemp makes it, is welcome.
func checkExport(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > 0) {
		return fmt.Errorf("%s exists already and is not empty; remove it or choose another --kubeconfig", path)
	}
	return err
}

// exportKubeconfig copies the admin's kubeconfig to the user's path, and returns the absolute path.
func exportKubeconfig(s *state, path string) (string, error) {
	content, err := os.ReadFile(s.path(adminKubeconfig))
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if err := os.WriteFile(s.path(exportRecord), []byte(path), 0o600); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, content, 0o600)
}

// removeExportedKubeconfig removes the copy, unless something else has been written to that path since.
func removeExportedKubeconfig(s *state) error {
	path, err := os.ReadFile(s.path(exportRecord))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	exported, err := os.ReadFile(string(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ours, err := os.ReadFile(s.path(adminKubeconfig))
	if err != nil || !bytes.Equal(exported, ours) {
		return err
	}
	return os.Remove(string(path))
}
