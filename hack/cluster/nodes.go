package main

import (
	"context"
	"fmt"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"
)

const (
	simulatedNodeAnnotation = "kwok.x-k8s.io/node"
	simulatedNodeValue      = "fake"

	// maxNodes is how many nodes the address ranges below have room for.
	maxNodes = 250

	// volumeProvisioner is the provisioner that stages/volumes.yaml simulates.
	volumeProvisioner = "kwok.x-k8s.io/volume"
)

// simulatedNode is the i-th node, counted from 0.
func simulatedNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%d", i+1)
	zone := string(rune('a' + i%3))
	podRange := fmt.Sprintf("10.244.%d.0/24", i+1) // a range each, or pods would share addresses
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("32"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{simulatedNodeAnnotation: simulatedNodeValue},
			Labels: map[string]string{
				corev1.LabelHostname:     name,
				corev1.LabelTopologyZone: zone,
				corev1.LabelOSStable:     "linux",
				corev1.LabelArchStable:   runtime.GOARCH,
			},
		},
		Spec: corev1.NodeSpec{PodCIDR: podRange, PodCIDRs: []string{podRange}},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.245.0.%d", i+1)},
			},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: "linux",
				Architecture:    runtime.GOARCH,
				OSImage:         "simulated by kwok",
				KubeletVersion:  version.Get().GitVersion,
			},
		},
	}
}

// createSimulated makes the nodes, and the storage classes whose volumes are simulated as they are.
func createSimulated(ctx context.Context, client kubernetes.Interface, count int) error {
	for i := range count {
		if _, err := client.CoreV1().Nodes().Create(ctx, simulatedNode(i), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating node %d: %w", i+1, err)
		}
	}
	// By the names that kind and k3s give theirs.
	for name, isDefault := range map[string]string{"standard": "true", "local-path": "false"} {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name:        name,
				Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": isDefault},
			},
			Provisioner:          volumeProvisioner,
			AllowVolumeExpansion: new(true),
		}
		if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the storage class %s: %w", name, err)
		}
	}
	return nil
}

// nodesReady returns nil when all nodes are Ready and pods can be scheduled to them.
func nodesReady(ctx context.Context, client kubernetes.Interface, count int) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for i := range nodes.Items {
		if nodeReady(&nodes.Items[i]) {
			ready++
		}
	}
	if ready < count {
		return fmt.Errorf("%d of %d are Ready", ready, count)
	}
	return nil
}

func nodeReady(node *corev1.Node) bool {
	// The API server taints a new node and the controller manager removes that once the node is Ready.
	if len(node.Spec.Taints) > 0 {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
