package sandbox

// account is a user other than our own; on Windows there is no need for one.
type account struct {
	set  bool
	name string
}

func otherAccount() account             { return account{} }
func (account) give(path string) error  { return nil }
func (account) reaches(dir string) bool { return true }
func ownedByUs(path string) bool        { return true }
