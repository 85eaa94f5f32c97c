/-- A frame: worlds, and which of them a world can see. -/
structure Frame where
  World : Type
  sees : World → World → Prop

/-- `p` holds in every world that `w` can see. -/
def box (F : Frame) (p : F.World → Prop) (w : F.World) : Prop :=
  ∀ v, F.sees w v → p v

/-- Whatever follows from `p` in every world holds wherever `p` does. -/
theorem box_mono (F : Frame) {p q : F.World → Prop} (h : ∀ w, p w → q w) (w : F.World) : box F p w → box F q w := by
  sorry
