module huolala.cn/app-operator/test/gitops/stage

go 1.26.3
