"""Single statements, by subject.  A statement that eager refuses where it stands is mostly thrown away, so that a table
may hold what fits only sometimes."""

from __future__ import annotations

VALUES = """
<new> = <f> <op> <f>
<new> = <f> <op> <f>
<new> = <f> <op> <r>
<new> = <r> <op> <f>
<new> = torch.<unary>(<f>)
<new> = torch.<unary>(<f>)
<new> = <f>.<reduce>()
<new> = <f>.<reduce>(0)
<new> = <f>.<reduce>(-1, keepdim=True)
<new> = <v>
<new> = <v>
<new> = <v> * <r>
<new> = <v> + <v>
<new> = <f>.clone()
<new> = <f>.to(<dt>)
<new> = <t>.float()
<new> = torch.cat([<f>, <f>])
<new> = torch.stack([<f1>, <f1>])
<new> = torch.where(<f> > <r>, <f>, <f>)
<new> = torch.where(<bool>, <f>, <r>)
<new> = <f>.clamp(-1, <r>)
<new> = <f>.masked_fill(<f> > <r>, <r>)
<new> = F.relu(<f>)
<new> = F.softmax(<f>, -1)
<new> = F.layer_norm(<f1>, <f1>.shape[-1:])
<new> = F.gelu(<f>)
<new> = F.dropout(<f>, 0.5, training=<c>)
<new> = F.mse_loss(<f>, <f>)
<new> = F.cross_entropy(<f>, <long>)
<new> = <f> @ <f>
<new> = F.linear(<f>, <f>)
<new> = <m>(<f>)
<new> = <m>(<f>)
<new> = <m>(<f>)
<new> = <m>(<f>) + <m>(<f>)
<new> = <f> > <r>
<new> = <f> == <r>
<new> = <long> + <r>
<new> = <long> // 2
<new> = torch.zeros_like(<f>)
<new> = torch.ones(<e>)
<new> = torch.arange(<e>)
<new> = torch.zeros(<e>, 3)
<new> = torch.full((<e>,), <r>)
<new> = torch.rand_like(<f>)
<new> = torch.randn(3)
<new> = <f>[<f> > <r>]
<new> = <f>[<long>]
<new> = <f>[<bool>]
<new> = <f>.sort()[0]
<new> = <f>.topk(1)
<new> = <f>.max(0)
<new> = <f>.argmax()
<new> = <f>.cumsum(0)
<new> = <f>.flip(0)
<new> = <f>.roll(1)
<new> = <f>.repeat(2, 1)
<new> = <f>.gather(0, <long>)
<new> = <f>.index_select(0, <long>)
<new> = <f>.nonzero()
<new> = <f>.numel() * <f>
<new> = <f> * <f>.shape[0]
<new> = <f>.sum().item() * <f>
<new> = <f> if <c> else <f>
<new> = F.pad(<f>, (1, 0))
<new> = torch.lerp(<f>, <f>, <r>)
<new> = torch.addmm(<f>, <f>, <f>)
<new> = torch.einsum("i,i->", <f>, <f>)
<new> = torch.maximum(<f>, <f>)
<new> = torch.fmod(<f>, <r>)
<new> = torch.logical_not(<t>)
<new> = <f>.pow(2).mean()
<new> = <f>.square().sum()
<new> = <f>.norm()
<new> = <f>.contiguous()
<new> = torch.tensor(<r>)
<new> = torch.tensor([<r>, <r>])
<new> = torch.tensor(<r>, requires_grad=True)
"""

MUTATION = """
<var> += <f>
<var> += <f>
<var> *= <r>
<var> -= <v>
<var>[0] = <r>
<var>[1:] = <f>
<var>[..., 0] = <f>
<var>[:1] += <f>
<var>[0] += <f>
<var>[<bool>] = <r>
<var>[<var> > <r>] = <r>
<var>[<var> > <r>] *= <r>
<var>[<long>] = <f>
<f>.add_(<f>)
<f>.add_(<f>)
<f>.mul_(<r>)
<f>.sub_(<f>, alpha=<r>)
<f>.copy_(<f>)
<f>.copy_(<v>)
<f>.zero_()
<f>.fill_(<r>)
<f1>.add_(<f1>.flip(0))
<f1>.copy_(<f1>.roll(1))
<f1>.sub_(<f1>.mT)
<f1>.copy_(torch.cat([<f1>[1:], <f1>[:1]]))
<f1>[1:] = <f1>[:-1] * <r>
<f1>[1:] += <f1>[:-1].clone()
<f1>.lerp_(<f1>.flip(-1), 0.5)
<f>.relu_()
<f>.clamp_(min=<r>)
<f>.exp_()
<f>.tanh_()
<f>.addcmul_(<f>, <f>)
<f>.masked_fill_(<f> > <r>, <r>)
<f>.index_fill_(0, <long>, <r>)
<f>.index_add_(0, <long>, <f>)
<f>.scatter_(0, <long>, <f>)
<f>.index_copy_(0, <long>, <f>)
<f>.lerp_(<f>, <r>)
<f>.t_()
<f>.unsqueeze_(0)
<f>.squeeze_()
<f>.detach_()
<f>.requires_grad_()
<plain>.requires_grad_(<c>)
<f>.data.mul_(<r>)
<f>.data = <f>
<f>.data.copy_(<f>)
<f1>.resize_(1); <f1>.fill_(<r>)
<plain1>.resize_(3, 3); <plain1>.fill_(<r>)
<f>.set_(<f>)
<f>.bernoulli_(0.5)
<f>.normal_()
<f>.uniform_()
<v>.add_(<f>)
<v>.mul_(<r>)
<v>.zero_()
<v>.copy_(<f>)
<v>.fill_(<r>)
<v>.add_(<v>)
<new> = <v>; <new>.add_(1)
<new> = <f>.detach(); <new>.mul_(<r>)
<new> = <f>.add_(<r>)
<new> = <f>.relu_()
<new> = <v>.mul_(<r>)
torch.add(<f>, <f>, out=<plain>)
torch.mul(<f>, <r>, out=<plain>)
torch.<unary>(<plain>, out=<plain>)
torch.cat([<plain>, <plain>], out=<plain>)
<new> = torch.add(<f>, <f>, out=<plain>)
<new> = torch.sum(<plain>, 0, out=<plain>)
torch.matmul(<plain>, <plain>, out=<plain>)
<new> = torch.empty(0); torch.sub(<plain>, <plain>, out=<new>)
F.relu(<f>, inplace=True)
<new> = F.dropout(<f>, 0.5, inplace=True)
<long>.add_(1)
<long>[0] = <e>
<bool>.logical_not_()
<new> = torch.zeros_like(<f1>); <new>.copy_(<f1>)
torch._foreach_add_([<f>, <f>], <r>)
"""

AUTOGRAD = """
<g>.sum().backward()
<g>.square().mean().backward()
<g>.square().mean().backward()
(<g> * <f>).sum().backward()
<g>.sum().backward(retain_graph=True)
<g1>.backward(torch.ones_like(<g1>))
<g1>.backward(gradient=<f>)
(<f> + <f>).sum().backward()
torch.autograd.backward([<g>.sum(), <g>.mean()])
<new> = torch.autograd.grad(<g>.sum(), <leaf>)[0]
<new> = torch.autograd.grad(<g>.square().sum(), [<leaf>, <leaf>], allow_unused=True)
<new> = torch.autograd.grad(<g>.square().sum(), <leaf>, create_graph=True)[0]
<new> = torch.autograd.grad(<g>.sum(), <g>, retain_graph=True)[0]
<new> = torch.autograd.grad(<g>.sum(), <leaf>, allow_unused=True, materialize_grads=True)[0]
<g>.sum().backward(inputs=[<leaf>])
<g>.register_hook(lambda g: g * <r>)
<g>.register_hook(lambda g: seen.append(g.shape))
<leaf>.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
<g>.retain_grad()
<leaf>.grad = None
<leaf>.grad.zero_()
<leaf>.grad.mul_(<r>)
<leaf>.grad = <plain>
<new> = <leaf>.grad
<leaf>.data.sub_(<leaf>.grad)
<new> = Double.apply(<f>)
<new> = Double.apply(<v>)
<new>, _ = Pair.apply(<f>, <f>)
_, <new> = Pair.apply(<f>, <f>)
<new> = InPlace.apply(<f>)
<new> = checkpoint(torch.sin, <f>, use_reentrant=False)
<new> = checkpoint(lambda t: t * <f>, <f>, use_reentrant=False)
<new> = checkpoint(<m>, <f>, use_reentrant=False)
<new> = checkpoint(torch.tanh, <g>, use_reentrant=True)
nn.utils.clip_grad_norm_([<leaf>, <leaf>], <r>)
nn.utils.clip_grad_value_([<leaf>], 0.5)
<o>.zero_grad()
<o>.zero_grad(set_to_none=False)
<o>.step()
<o>.step()
<o>.zero_grad(); <g>.square().mean().backward(); <o>.step()
<o>.zero_grad(); <m>(<f>).square().mean().backward(); <o>.step()
<m>(<f>).sum().backward()
<m>.zero_grad()
<m>.requires_grad_(<c>)
<new> = <f>.detach().requires_grad_()
<new> = <f>.clone().requires_grad_()
<new> = <f>.detach().clone().requires_grad_(); (<new> * <f>).sum().backward()
<new> = nn.Parameter(<f>)
<new> = <g>.requires_grad
<new> = torch.func.grad(lambda t: (t * <f>).sum())(<f>)
<new> = torch.func.vmap(lambda t: t * 2)(<f>)
<new> = <g>.grad_fn is None
<new> = <f>._version
"""

STATE = """
<l>.append(<f>)
<l>.append(<any>)
<l>[0] = <f>
<l>[-1] += <f>
<l> += [<f>]
<l>.extend([<f>, <r>])
<l>.insert(0, <f>)
<l>.reverse()
<new> = <l>.pop()
<new> = list(<l>)
<new> = sum(t.sum() for t in <l> if isinstance(t, torch.Tensor))
<new> = [t * 2 for t in <l> if isinstance(t, torch.Tensor)]
<new> = (<f>, <f>)
<new>, <var> = <f>, <f>
<d>["k"] = <f>
<d>["n"] = <e>
<d>.update(k=<f>)
<d>.setdefault("z", <f>).add_(1)
<new> = <d>.get("k", <f>)
<new> = {k: v for k, v in <d>.items()}
<new> = <d>.pop("k", None)
<s>.t = <f>
<s>.count += 1
<s>.count = <e>
<s>.last = <any>
<s>.t += <f>
<new> = <s>.t
n += 1
n = n * 2
n = <e>
<new> = <e>
seen.append(<e>)
seen.append(<c>)
seen.append(f"{n}")
flag = <c>
<m>.train(<c>)
<m>.eval()
<m>.note = <f>
<m>.note = <e>
<m>.register_buffer("kept", <f>)
<m>.register_buffer("kept", <f>.detach())
<m>.calls = getattr(<m>, "calls", 0) + 1
<new> = [name for name, p in <m>.named_parameters() if p.grad is None]
<new> = <m>.training
for p in <m>.parameters(): p.requires_grad_(<c>)
for p in <m>.parameters(): p.data.mul_(<r>)
<new> = {k: v.clone() for k, v in <m>.state_dict().items()}
<m>.load_state_dict({k: v * <r> for k, v in <m>.state_dict().items()})
assert <c>
<new> = int(<f>.sum())
<new> = <f>.tolist()
<new> = bool((<f> > <r>).any())
<new> = <f> is <f>
<new> = <f>.data_ptr() == <f>.data_ptr()
<new> = len(<l>) + <e>
print(end="")
<new> = lambda t: t + <f>
<new> = helper(<f>)
<new> = helper(<f>, scale=<r>)
<new> = helper(<f>, into=<l>)
"""

OUTSIDE = """
<g>.sum().backward()
<g>.square().mean().backward()
<g>.sum().backward(retain_graph=True)
<f>.detach().add_(1)
<plain>.mul_(2)
<plain>.add_(<f>)
<v>.detach().zero_()
<leaf>.grad.mul_(2)
<leaf>.data.add_(1)
s.out = torch.autograd.grad(<g>.sum(), <leaf>, allow_unused=True)
s.out = <f> * 2
s.out = <g>.grad_fn is not None
torch.autograd.grad(<g>.square().sum(), <leaf>, create_graph=True)[0].sum().backward()
"""

CHANGES = """
s.<var> = torch.tensor(<literal>)
s.<var> = torch.tensor(<literal>, requires_grad=True)
s.<var> = s.<var>.detach()
s.<var>.requires_grad_(not s.<var>.requires_grad)
s.<var>.data.mul_(2)
s.<var>.data.neg_()
s.<var> = s.<var>.detach().clone().requires_grad_()
s.<var> = s.<var>.detach().clone().requires_grad_() * 1
s.y = s.w * 2
s.<var> = torch.cat([s.<var>.detach()] * 2)
s.<var> = s.<var>.detach().to(torch.bfloat16)
s.<var>.grad = None
s.n += 1
s.n = 0
s.flag = not s.flag
s.model.eval()
s.model.train()
s.model.requires_grad_(False)
s.model.zero_grad()
for block in getattr(s.model, "blocks", [])[3:]: block.scale = 4
for block in getattr(s.model, "blocks", [])[3:4]: block.eval()
s.items.append(torch.ones(2))
s.items.clear()
s.table["k"] = torch.ones(3)
s.state.count = 5
s.opt.param_groups[0]["lr"] = 0.25
"""

OPERATORS = ("+", "-", "*", "+", "*", "/", "**", "%")
UNARY = (
    "sin", "cos", "exp", "tanh", "abs", "neg", "sigmoid", "relu", "sqrt", "sign", "floor", "square", "log1p", "atan",
    "erf", "reciprocal", "round", "isnan",
)  # fmt: skip
REDUCTIONS = ("sum", "mean", "sum", "amax", "prod", "std", "logsumexp", "any", "argmax", "norm", "min")
