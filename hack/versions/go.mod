// The requirements are in the v*.mod next to this file, one for each version of Kubernetes. Go wants a file of this name.
module huolala.cn/app-operator/hack/versions

go 1.26.0
