module cache

go 1.22
