package wire

func (*Hello) kind() Type    { return TypeHello }
func (*Welcome) kind() Type  { return TypeWelcome }
func (*Layout) kind() Type   { return TypeLayout }
func (*Share) kind() Type    { return TypeShare }
func (*Info) kind() Type     { return TypeInfo }
func (*Fill) kind() Type     { return TypeFill }
func (*Load) kind() Type     { return TypeLoad }
func (*Export) kind() Type   { return TypeExport }
func (*Evaluate) kind() Type { return TypeEvaluate }
func (*Restore) kind() Type  { return TypeRestore }
func (*Train) kind() Type    { return TypeTrain }
func (*Done) kind() Type     { return TypeDone }
func (*Offer) kind() Type    { return TypeOffer }
func (*At) kind() Type       { return TypeAt }
func (*Go) kind() Type       { return TypeGo }
func (*Notice) kind() Type   { return TypeNotice }
func (*Ping) kind() Type     { return TypePing }
func (*Pong) kind() Type     { return TypePong }
func (*Leave) kind() Type    { return TypeLeave }
func (*Error) kind() Type    { return TypeError }

func (m *Hello) fields() []field {
	return []field{
		{1, &m.Version},
		{2, &m.Rank},
		{3, &m.World},
		{4, &m.Set},
		{5, &m.Run},
		{6, &m.Client},
		{10, &m.Saves},
		{11, &m.State},
	}
}

func (m *Welcome) fields() []field {
	return []field{{1, &m.Version}, {2, &m.Run}, {3, &m.DataDir}, {4, &m.PID}}
}
func (m *Layout) fields() []field { return []field{{1, &m.Tensors}, {2, &m.Pieces}} }
func (m *Share) fields() []field {
	return []field{{1, &m.Elements}, {2, &m.Offset}, {3, &m.Size}, {4, &m.Epoch}, {5, &m.Writes}}
}

func (m *Info) fields() []field {
	return []field{
		{1, &m.RunID},
		{2, &m.Peer},
		{3, &m.Mode},
		{4, &m.InnerSteps},
		{5, &m.LastSlot},
		{6, &m.Spec},
		{7, &m.Slot},
		{8, &m.Root},
	}
}
func (*Fill) fields() []field { return nil }
func (m *Load) fields() []field {
	return []field{{1, &m.Begin}, {2, &m.End}, {3, &m.Generation}}
}
func (m *Export) fields() []field  { return []field{{1, &m.Begin}, {2, &m.End}, {3, &m.Kind}} }
func (*Evaluate) fields() []field  { return nil }
func (m *Restore) fields() []field { return []field{{1, &m.Folder}, {2, &m.World}} }
func (m *Done) fields() []field    { return []field{{1, &m.Status}, {2, &m.Text}, {3, &m.Loss}} }
func (m *At) fields() []field      { return []field{{1, &m.Train}, {2, &m.Steps}} }
func (m *Go) fields() []field      { return []field{{1, &m.Answer}, {2, &m.Look}} }
func (m *Notice) fields() []field  { return []field{{1, &m.Level}, {2, &m.Text}} }
func (*Ping) fields() []field      { return nil }
func (*Pong) fields() []field      { return nil }
func (m *Leave) fields() []field   { return []field{{1, &m.Reason}, {2, &m.Run}} }
func (m *Error) fields() []field   { return []field{{1, (*uint64)(&m.Code)}, {2, &m.Text}} }
func (m *Train) fields() []field {
	return []field{
		{1, &m.Slot},
		{2, &m.Steps},
		{3, &m.Look},
		{4, &m.Export},
		{5, &m.Seed},
		{6, &m.Member},
		{7, &m.Members},
		{8, &m.Part},
		{9, &m.PartSteps},
		{10, &m.PartDone},
		{11, &m.Delay},
		{12, &m.MemberIDs},
		{13, &m.Save},
		{14, &m.Step},
		{15, &m.TotalSteps},
	}
}

func (m *Offer) fields() []field {
	return []field{
		{1, &m.Steps}, {2, &m.Tokens}, {3, &m.Samples}, {4, &m.Loss}, {5, &m.GradNorm}, {6, &m.Seconds},
	}
}
